"""What a problem, a method and a batch size become: moments, their maps, and how a run is divided into segments."""
