"""MirrorMaker 1's command line: `kafka-mirror-maker` and `causeway mirror-maker`.

The options are those of kafka.tools.MirrorMaker in all releases up to 3.9, the last with it. As
there, `--name value`, `--name=value` and `-name value` are the same. Options without an equivalent
are refused: a mirror without the message handler of the user would be another mirror.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from causeway.cli.commands import epilog
from causeway.cli.guard import guarded, warn
from causeway.errors import ConfigError
from causeway.signals import hang_ups_remembered

_REFUSED: Final = {
    "message.handler": "Java message handlers cannot be loaded: leave it out to mirror records "
    "unchanged",
    "message.handler.args": "Java message handlers cannot be loaded",
    "consumer.rebalance.listener": "there is no consumer group, so no rebalances: leave it out",
    "rebalance.listener": "there is no consumer group, so no rebalances: leave it out",
    "rebalance.listener.args": "there is no consumer group, so no rebalances",
    "blacklist": "an option of the consumer of Kafka 0.8: use --include instead",
    "queue.size": "an option of Kafka 0.8: leave it out",
    "num.producers": "an option of Kafka 0.8: leave it out",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError("read options", cause=message, remedy="see kafka-mirror-maker --help")


def make_parser() -> _Parser:
    parser = _Parser(
        prog="kafka-mirror-maker",
        description="Continuously copy data between two Kafka clusters. Topics keep their names.",
        epilog=epilog("mirror-maker"),
        allow_abbrev=False,
        add_help=False,
    )

    def option(name: str, **settings: Any) -> None:
        parser.add_argument(f"--{name}", dest=name, **settings)

    option(
        "consumer.config",
        action="append",
        metavar="FILE",
        help="consumer properties of a source cluster; repeat it for several sources",
    )
    option("producer.config", metavar="FILE", help="producer properties of the target cluster")
    option("include", metavar="REGEX", help="topics to mirror: Java regex, ',' means '|'")
    option("whitelist", metavar="REGEX", help="the older name of --include")
    option(
        "num.streams",
        type=_positive,
        metavar="N",
        help="number of lanes (default: half of the cores)",
    )
    option(
        "offset.commit.interval.ms",
        type=_positive,
        metavar="MS",
        help="how often progress is written (default 1000)",
    )
    option(
        "abort.on.send.failure",
        type=_boolean,
        default=True,
        metavar="BOOL",
        help="accepted, has no effect: no record is skipped, its partition waits",
    )
    option("new.consumer", action="store_true", help="accepted, has no effect")
    option("until-caught-up", action="store_true", help="not in MirrorMaker 1: see causeway run")
    option("from", metavar="TIMESTAMP", help="not in MirrorMaker 1: see causeway run")
    option("adopt", action="store_true", help="not in MirrorMaker 1: see causeway run")
    option("help", action="store_true", help="print this message")
    option("version", action="store_true", help="print the version")
    for name in _REFUSED:
        option(name, nargs="?", const="", help=argparse.SUPPRESS)
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def command(arguments: Sequence[str]) -> int:
    """Runs with MirrorMaker 1's arguments. Returns the exit code. Raises CausewayError."""
    parser = make_parser()
    if not arguments:
        parser.print_help()
        return 0
    names = vars(parser.parse_args([]))
    options = vars(
        parser.parse_args(
            [
                # A known option with one dash is the same with two.
                f"-{each}" if each[:1] == "-" and each[1:].partition("=")[0] in names else each
                for each in arguments
            ]
        )
    )
    if options["help"]:
        parser.print_help()
        return 0
    if options["version"]:
        from importlib.metadata import version

        print(f"causeway {version('causeway')}")
        return 0
    for name, why in _REFUSED.items():
        if options[name] is not None:
            raise ConfigError("use option", f"--{name}", "it has no equivalent", remedy=why)
    if options["include"] is not None and options["whitelist"] is not None:
        raise ConfigError(
            "read options", cause="--include and --whitelist are the same option: give one of them"
        )
    include = options["include"] if options["include"] is not None else options["whitelist"]
    for name, value in (
        ("consumer.config", options["consumer.config"]),
        ("producer.config", options["producer.config"]),
        ("include", include),
    ):
        if value is None:
            raise ConfigError("read options", cause=f"--{name} is missing")
    with hang_ups_remembered():
        return _run(options, include)


def _run(options: dict[str, Any], include: str) -> int:
    from causeway.cli.common import parse_timestamp
    from causeway.cli.run import run_settings
    from causeway.config import rereadable
    from causeway.formats import load_mm1

    settings = rereadable(
        lambda: load_mm1(
            [Path(name) for name in options["consumer.config"]],
            Path(options["producer.config"]),
            include,
            num_streams=options["num.streams"],
            offset_commit_interval_ms=options["offset.commit.interval.ms"],
        )
    )
    if not options["abort.on.send.failure"]:
        warn(["--abort.on.send.failure false: no record is skipped, its partition waits instead"])
    warn(settings.warnings)
    start = options["from"]
    return run_settings(
        settings,
        until_caught_up=options["until-caught-up"],
        start_from=None if start is None else parse_timestamp(start),
        adopt=options["adopt"],
    )


def main() -> None:
    arguments = sys.argv[1:]
    if "--debug" in arguments:
        arguments.remove("--debug")
        os.environ["CAUSEWAY_DEBUG"] = "1"
    sys.exit(guarded(lambda: command(arguments)))
