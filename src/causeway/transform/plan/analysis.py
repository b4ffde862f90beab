"""Makes a checked Spark query from a transform's settings.

rows ─► prelude ─► the user's plan, rewritten (rewrite) ─► postlude (outputs)"""

from __future__ import annotations

import importlib
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructType, _parse_datatype_json_string

from causeway.config import TransformSettings
from causeway.errors import ConfigError
from causeway.transform import rules
from causeway.transform.plan import outputs, prelude
from causeway.transform.plan.catalyst import Catalyst, Node, QueryPlace, each, left_out_of
from causeway.transform.plan.prelude import HIDDEN, RecordPart
from causeway.transform.plan.refusals import PlanProblem, QueryFacts, examine
from causeway.transform.plan.rewrite import Rewriter
from causeway.transform.plan.shortcut import shortcut_of_query
from causeway.transform.rows import INPUT, LACKING, SCHEMA_FORMATS, SECRETS, TEXTS
from causeway.transform.rules import shortcut_of
from causeway.transform.schema_formats import require
from causeway.transform.session import OF_RULES, SESSION, require_spark
from causeway.transform.work import StageWork

_AT = re.compile(r"\bline (\d+),? pos (\d+)\b")
_CLASS = re.compile(r"^\s*\[[A-Z0-9_.]+\]\s*")
_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedTransform:
    """A transform that Spark has analysed and that treats each record by itself.

    `input`: the schema of the source worker's rows: `rows.INPUT`, the struct `secrets` if there are
    secrets, and columns of `rows.TEXTS`. `replaces`: which of key, value, headers, timestamp,
    topic, partition the transform replaces; the others stay byte for byte. `sql`: the text of the
    query; None for a Python function."""

    input: StructType
    replaces: frozenset[str]
    sql: str | None
    work: StageWork
    _session: SparkSession = field(repr=False)
    _parts: tuple[RecordPart, RecordPart] = field(repr=False)
    _facts: QueryFacts = field(repr=False)
    _plan: Node = field(repr=False)
    _view: Node = field(repr=False)
    _found: Mapping[str, outputs.Projected] = field(repr=False)

    @property
    def multiplies(self) -> bool:
        """Whether it may make several records of one."""
        return self._facts.multiplies

    def apply(self, rows: DataFrame, *, throws: bool = False) -> DataFrame:
        """Returns rows of `rows.OUTPUT` for rows of `input`, in their order, with markers at their
        places. The result belongs to the session that the transform was prepared in, with SESSION's
        settings. With `throws` a record on which the query throws ends the job and is not refused;
        then Spark's message quotes the record."""
        to = Catalyst(self._session._jvm)
        before = prelude.prelude(self._own(_analysed(rows)), self._parts, self._facts.used)
        plan = _analysed(before)
        by_name = {str(column.name()): column for column in each(plan.output())}
        hidden = [by_name[name] for name in HIDDEN]
        view = [to.alias(by_name[str(one.name())], one) for one in each(self._view.output())]
        records = to.project([*view, *hidden], plan)
        rewritten = Rewriter(to, self._facts, records, hidden, throws=throws).rewrite(self._plan)
        return outputs.postlude(self._own(rewritten), self._found)

    def _own(self, plan: Node) -> DataFrame:
        dataset = getattr(self._session._jvm, "org.apache.spark.sql.classic.Dataset")
        return DataFrame(dataset.ofRows(self._session._jsparkSession, plan), self._session)


def prepare(session: SparkSession, transform: TransformSettings) -> PreparedTransform:
    """Analyses `transform` in a new session. Raises ConfigError with all problems that Spark and
    Causeway find, and their places. Raises PrerequisiteError for an unsupported Spark, or for a
    missing package that its rules need."""
    require_spark()
    for format in sorted({*transform.formats.values()}.intersection(SCHEMA_FORMATS)):
        require(format)
    subject = transform.place or f"transform {transform.name}"
    own = session.newSession()
    by_rules = transform.rules is not None
    for key, value in {**SESSION, **(OF_RULES if by_rules else {})}.items():
        own.conf.set(key, value)
    text = transform.sql
    if by_rules:
        rules.register(own, transform)
        text = rules.to_sql(transform)
    with _quiet():
        both = _parts_of(transform, subject)
        if by_rules:
            rules.check_paths(transform)
        given = _input(transform)
        view = _view(own, given, both)
        if text is None:
            frame = _call(transform, own, subject)
        else:
            text = text.rstrip().rstrip(";")
            frame = _query(own, text, subject)
    plan, base = _analysed(frame), _analysed(view)
    parser = own._jsparkSession.sessionState().sqlParser()
    to = Catalyst(own._jvm)
    facts = examine(plan, base, to, parser.parseExpression, by_rules=by_rules)
    left_out = set() if text is None else left_out_of(parser.parseQuery(text))
    found = outputs.recognise(plan, frame.schema, facts, both, left_out, by_rules=by_rules)
    if facts.problems:
        raise _refused(subject, [str(problem) for problem in facts.problems])
    replaces = frozenset(found) & frozenset(outputs.NAMES)
    of_schema = {part.name: part.format for part in both if part.of_schema}
    work = StageWork(
        secrets=tuple(transform.secrets),
        texts=tuple(name for name in (*TEXTS.values(), LACKING) if name in given.names),
        decodes={name: of_schema[name] for name in of_schema if name in facts.used},
        encodes={name: of_schema[name] for name in of_schema if name in replaces},
        rules=rules.parse(transform.rules, transform.place)
        if transform.rules and of_schema
        else (),
        types=_types(both, facts),
        shortcut=shortcut_of(transform)
        if by_rules
        else shortcut_of_query(plan, base, facts, both, found, own.conf.getAll),
    )
    return PreparedTransform(given, replaces, text, work, own, both, facts, plan, base, found)


def _types(both: tuple[RecordPart, RecordPart], facts: QueryFacts) -> dict[str, list[Any]]:
    """Returns the DataTypes that the JSON of parts is read as, by their schemas and by from_json in
    the query."""
    found: dict[str, list[Any]] = {}
    for part in both:
        if part.name not in facts.used:
            continue
        types = [] if part.type is None else [part.type]
        if part.format == "json":
            read_as = [text for name, text in facts.read_as if name == part.name]
            types += map(_parse_datatype_json_string, read_as)
        found[part.name] = types
    return found


def _input(transform: TransformSettings) -> StructType:
    schema = StructType.fromDDL(INPUT)
    for name, format in transform.formats.items():
        if format in SCHEMA_FORMATS:
            schema = schema.add(TEXTS[name], StringType())
    if transform.rules is not None and {*TEXTS.values()}.intersection(schema.names):
        schema = schema.add(LACKING, LongType())
    if transform.secrets:
        secrets = StructType()
        for name in transform.secrets:
            secrets = secrets.add(name, StringType())
        schema = schema.add(SECRETS, secrets)
    return schema


def _parts_of(transform: TransformSettings, subject: str) -> tuple[RecordPart, RecordPart]:
    try:
        return prelude.parts(transform)
    except PySparkException as error:
        problem = _problem(error)
        raise _refused(subject, [f"its schema is not Spark DDL: {problem}"]) from None


def _view(own: SparkSession, given: StructType, both: tuple[RecordPart, RecordPart]) -> DataFrame:
    """Registers an empty table `records`, as the query sees it, and returns it."""
    empty = own.createDataFrame([], given)
    visible = prelude.prelude(empty, both, {"key", "value"}).drop(*HIDDEN)
    view = own.createDataFrame([], visible.schema)
    view.createOrReplaceTempView("records")
    return view


def _query(own: SparkSession, text: str, subject: str) -> DataFrame:
    try:
        # `parseQuery` refuses statements; `sql` would execute them.
        own._jsparkSession.sessionState().sqlParser().parseQuery(text)
        return own.sql(text)
    except PySparkException as error:
        raise _refused(subject, [str(_problem(error))]) from None


def _call(transform: TransformSettings, own: SparkSession, subject: str) -> DataFrame:
    module, _, path = str(transform.python).partition(":")
    try:
        function: Any = importlib.import_module(module)
    except Exception as error:  # the user's code may raise anything
        raise _refused(subject, [f"{module} cannot be imported: {_text_of(error)}"]) from None
    for part in path.split("."):
        if (function := getattr(function, part, None)) is None:
            raise _refused(subject, [f"the module {module} has no {path or 'function'}"])
    try:
        frame = function(own.table("records"))
    except PySparkException as error:
        raise _refused(subject, [f"{transform.python}: {_problem(error)}"]) from None
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{last.filename.rpartition('/')[2]}:{last.lineno}"
        raise _refused(subject, [f"{transform.python}: {where}: {_text_of(error)}"]) from None
    if not isinstance(frame, DataFrame):
        kind = type(frame).__name__
        raise _refused(subject, [f"{transform.python} returned a {kind}, not a DataFrame"])
    return frame


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _problem(error: Any) -> PlanProblem:
    """Returns Spark's message in one line, without its error class and the plan."""
    text = str(error)
    at = _AT.search(text)
    place = QueryPlace(int(at[1]), int(at[2]) + 1) if at else QueryPlace()
    first = _STATE.sub("", _CLASS.sub("", text))
    if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
        first = first.partition(". ")[0] + ": there is only the view `records`"
    return PlanProblem(place, " ".join(first.split()))


def _refused(subject: str, problems: list[str]) -> ConfigError:
    if len(problems) == 1:
        return ConfigError("use", subject, problems[0])
    listed = "".join(f"\n  {line}" for line in problems)
    return ConfigError("use", subject, f"{len(problems)} problems{listed}")


def _analysed(frame: DataFrame) -> Node:
    return frame._jdf.queryExecution().analyzed()


@contextmanager
def _quiet() -> Iterator[None]:
    """Disables PySpark's logging of exceptions with the stack of the JVM."""
    names = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
    loggers = [PySparkLogger.getLogger(name) for name in names]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was
