"""`sgdtheory explore`: a local page of sliders and figures."""

import webbrowser
from dataclasses import dataclass
from typing import ClassVar

from sgdtheory.cli.ctrl_c import Unwinding


@dataclass(frozen=True, kw_only=True)
class ExploreCommand:
    """Open a page in the browser that shows risks and critical batch sizes while you move sliders.

    This process and its children compute the page; Ctrl-C ends them. Only this machine can open the page unless --host
    says otherwise. A link to the page holds all of its state.

    With --export it writes one file instead, which needs no server and no Python: the browser computes averaged SGD.
    """

    FLAG_GROUPS: ClassVar[dict[str, tuple[str, ...]]] = {"page": ("host", "port", "no_browser", "export")}

    host: str = "127.0.0.1"
    """Address to listen at; 0.0.0.0 lets everybody in who can reach this machine."""
    port: int | None = None
    """Port; 5006 or the next that is free unless given."""
    no_browser: bool = False
    """Print the address, and open no browser."""
    export: str | None = None
    """Write the page to this .html file, to be sent or hosted, and serve nothing."""

    def run(self) -> None:
        """Serve until Ctrl-C, or write the page."""
        if self.export is not None:
            self._write(self.export)
            return
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

    @staticmethod
    def _write(path: str) -> None:
        from sgdtheory.explore import export_page

        written = export_page(path)
        print(f"{written}  ({written.stat().st_size / 1000:.0f} kB: one file, for any browser, without a network)")
