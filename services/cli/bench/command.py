"""`headway bench`: sends a workload to a server, and says what its clients would have measured."""

import asyncio
import importlib.util

from cyclopts import App

from services.cli.bench.options import (
    DEFAULT_REPORT,
    DEFAULT_TARGET,
    DEFAULT_WORKLOAD,
    ReportOptions,
    TargetOptions,
    WorkloadOptions,
)
from services.runtime.lifecycle import BadSetting

_EXAMPLES = """By default 64 requests at once go to a Headway server on this machine. More:

    headway bench --workload W3 --rate 4 --repeats 3 --slo ttft_p99=500ms,tbt_p99=50ms
    headway bench --http http://127.0.0.1:8000 --workload W4 --json peer.json
    headway bench --users 20 --think 5 --turns 6 --html chat.html
    headway bench --sweep --slo llama3.1-8b-interactive --price-per-hour 2.5

Exit code 0: measured, and the SLO holds where there is one. 1: it fails, or nothing was answered. 2: a flag that
cannot be. docs/benchmarking.md defines every number."""

app = App(
    name="bench", help_epilogue=_EXAMPLES, help_format="plaintext", version_flags=(), result_action="return_value"
)


@app.default
def bench(
    *,
    target: TargetOptions = DEFAULT_TARGET,
    workload: WorkloadOptions = DEFAULT_WORKLOAD,
    report: ReportOptions = DEFAULT_REPORT,
) -> int:
    """Measure a server under load: latencies, throughput, failures, whether it keeps to an SLO, and what it costs."""
    _check_installed("numpy", *(["aiohttp"] if target.http else []))
    from services.cli.bench.report import Report
    from services.cli.bench.session import Session

    session = Session.of(target, workload, report)
    return Report.of(asyncio.run(session.measure()), report).publish()


def _check_installed(*libraries: str) -> None:
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            raise BadSetting(
                f"this needs {library}, which is not installed; the extra `bench` brings it: pip install -e '.[bench]'"
            )
