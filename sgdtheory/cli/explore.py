"""`sgdtheory explore`: a local page of sliders and figures."""

import webbrowser

from sgdtheory.cli.ctrl_c import Unwinding


def explore(
    host: str = "127.0.0.1", port: int | None = None, no_browser: bool = False, export: str | None = None
) -> None:
    """A page in the browser: move a power law, an algorithm, B and γ, and look at risks and critical batch sizes.

    Everything is computed while you look, by this process and its children; Ctrl-C ends them. Only this machine can
    open the page unless --host says otherwise. A link to the page holds all of its state.

    With --export it writes a page instead that needs no server and no Python: averaged SGD, computed by the browser.

    Args:
        host: Address to listen at; 0.0.0.0 lets everybody in who can reach this machine.
        port: Port; None: 5006 or the next that is free.
        no_browser: Print the address alone.
        export: Write the page to this .html file, to be sent or hosted, and serve nothing.
    """
    if export is not None:
        _write(export)
        return
    from sgdtheory.explore import make_server  # Bokeh is slow to import

    server = make_server(host=host, port=port)
    try:
        print(f"{server.explorer_url}  (Ctrl-C ends it)", flush=True)
        if not no_browser:
            webbrowser.open(server.explorer_url)
        with Unwinding():
            server.start()
            server.io_loop.start()
    finally:
        server.explorer_workers.close()


def _write(path: str) -> None:
    from sgdtheory.explore import export_page

    written = export_page(path)
    print(f"{written}  ({written.stat().st_size / 1000:.0f} kB: one file, for any browser, without a network)")
