"""`sgdtheory explore`: a local page of sliders and figures."""

import webbrowser

from sgdtheory import explore as explorer
from sgdtheory.cli.ctrl_c import Unwinding


def explore(
    host: str = "127.0.0.1", port: int | None = None, no_browser: bool = False, export: str | None = None
) -> None:
    """Open a page in the browser that shows risks and critical batch sizes while you move sliders.

    This process and its children compute the page; Ctrl-C ends them. Only this machine can open the page unless --host
    says otherwise. A link to the page holds all of its state.

    With --export it writes one file instead, which needs no server and no Python: the browser computes averaged SGD.

    Args:
        host: Address to listen at; 0.0.0.0 lets everybody in who can reach this machine.
        port: Port; None: 5006 or the next that is free.
        no_browser: Print the address, and open no browser.
        export: Write the page to this .html file, to be sent or hosted, and serve nothing.
    """
    if export is not None:
        written = explorer.export_page(export)
        print(f"{written}  ({written.stat().st_size / 1000:.0f} kB: one file, for any browser, without a network)")
        return
    server = explorer.make_server(host=host, port=port)
    try:
        print(f"{server.explorer_url}  (Ctrl-C ends it)", flush=True)
        if not no_browser:
            webbrowser.open(server.explorer_url)
        with Unwinding():
            server.start()
            server.io_loop.start()
    finally:
        server.explorer_workers.close()
