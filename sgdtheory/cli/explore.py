"""`sgdtheory explore`: a local page of sliders and figures."""

import webbrowser
from dataclasses import dataclass
from typing import ClassVar

from sgdtheory.cli.ctrl_c import Unwinding


@dataclass(frozen=True, kw_only=True)
class ExploreCommand:
    """A page in the browser: move a power law, an algorithm, B and γ, and look at risks and critical batch sizes.

    Everything is computed while you look, by this process and its children; Ctrl-C ends them. Only this machine can
    open the page unless --host says otherwise. A link to the page holds all of its state.
    """

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {"page": ("host", "port", "no_browser")}

    host: str = "127.0.0.1"
    """Address to listen at; 0.0.0.0 lets everybody in who can reach this machine."""
    port: int | None = None
    """Port; 5006 or the next that is free unless given."""
    no_browser: bool = False
    """Print the address alone."""

    def run(self) -> None:
        """Serve until Ctrl-C."""
        from sgdtheory.explore import make_server  # Bokeh is slow to import

        server = make_server(host=self.host, port=self.port)
        try:
            print(f"{server.explorer_url}  (Ctrl-C ends it)", flush=True)
            if not self.no_browser:
                webbrowser.open(server.explorer_url)
            with Unwinding():
                server.start()
                server.io_loop.start()
        finally:
            server.explorer_workers.close()
