"""Systems that problem, method and batch size become: moments, their maps, and the segments of a run."""
