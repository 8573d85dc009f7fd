"""`sgdtheory explore`: a local page of sliders and figures."""

import webbrowser
from typing import Annotated, Any

from sgdtheory import explore as explorer
from sgdtheory.cli.ctrl_c import Unwinding
from sgdtheory.cli.function_command import Keywords


def explore(
    no_browser: bool = False,
    export: str | None = None,
    **options: Annotated[Any, Keywords(explorer.make_server, "host port")],
) -> None:
    """Open a page in the browser that shows risks and critical batch sizes while you move sliders.

    This process and its children compute the page; Ctrl-C ends them. Only this machine can open the page unless --host
    says otherwise. A link to the page holds all of its state.

    With --export it writes one file instead, which needs no server and no Python: the browser computes averaged SGD.

    Args:
        no_browser: Print the address, and open no browser.
        export: Write the page to this .html file, to be sent or hosted, and serve nothing.
    """
    if export is not None:
        written = explorer.export_page(export)
        print(f"{written}  ({written.stat().st_size / 1000:.0f} kB: one file, for any browser, without a network)")
        return
    server = explorer.make_server(**options)
    try:
        print(f"{server.explorer_url}  (Ctrl-C ends it)", flush=True)
        if not no_browser:
            webbrowser.open(server.explorer_url)
        with Unwinding():
            server.start()
            server.io_loop.start()
    finally:
        server.explorer_workers.close()
