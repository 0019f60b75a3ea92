"""Makes docs/errors: a page for each code of the catalogue, and their index.

The texts are the classes' own: the docstring says what the error means, the hint what to do. Only the examples stand
here; each is an error as the code raises it. `--check` writes nothing and fails if a page is not up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lakestreams import errors
from lakestreams.errors import LakestreamsError, meaning

FOLDER: Final = Path(__file__).parents[1] / "docs" / "errors"
MADE: Final = "<!-- made by scripts/error_pages.py; the text is the class's docstring in src/lakestreams/errors/ -->"
CHAPTERS: Final = {
    "0": "Anything else",
    "1": "The topology",
    "2": "Configuration",
    "3": "Kafka",
    "4": "The data",
    "5": "Tables and the engine",
    "6": "Local parts",
    "7": "Databricks",
    "8": "Delta tables as sources",
}

_UNEQUAL: Final = errors.CoPartitioningRequired(
    'CoPartitioningRequired { left = "PageViews" (12), right = "UserProfiles" (6) }',
    where='conf/enrichment.yml:6  step "enriched"',
)
_NO_COLUMN: Final = errors.UnknownColumn(
    "UserProfiles has no column 'regoin'",
    hint="did you mean 'region'? UserProfiles has: user, region",
    where='left_join "enriched"',
)
EXAMPLES: Final[Sequence[LakestreamsError]] = (
    LakestreamsError(
        "unexpected AnalysisException: the table was altered while it was written",
        hint="please report this with the log file error-20260301-120000-4711.log",
    ),
    errors.TopologyInvalid([_NO_COLUMN, _UNEQUAL], "page_views"),
    errors.UnnamedNode("a filter has no name", hint="pass a name that is not empty", where='filter ""'),
    errors.DuplicateName("2 nodes are named 'PageViews_filter': filter, filter", hint="pass name=... on all but one"),
    errors.KeyTypeMismatch(
        'KeyTypeMismatch { left = "Orders", right = "Customers" }: left key (bigint) against right key (string)',
        where='left_join "with_customer"',
    ),
    _UNEQUAL,
    _NO_COLUMN,
    errors.InvalidFormat(
        "the schema 'ms int, page strin' has the unknown type 'strin'", hint="one of bigint, boolean, int, string, ..."
    ),
    errors.InvalidDuration("max_future '1 fortnight' is not a duration"),
    errors.InvalidName("table name 'silver.page-views'", where='to_delta "silver.page-views"'),
    errors.NoOutput("pipeline 'page_views' has no output"),
    errors.InvalidExpression(
        '[DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES] the left and right operand of "(page + day)" have different types',
        where='map_values "PageViews_map_values"',
    ),
    errors.MixedBuilders("PageViews and UserProfiles belong to different builders"),
    errors.InvalidOption("cluster_by and partition_by exclude each other", where='to_delta "silver.enriched"'),
    errors.WrongKind(
        "the right side of a stream-global join is UserProfiles, a table; it takes a global table",
        where='left_join "enriched"',
    ),
    errors.OwnTopic("topic PageViews is written, and read by PageViews", where='to_kafka "PageViews"'),
    errors.FormatUnfit(
        "value: json(page string, regoin string) names regoin, which the value lacks",
        hint="the value has: event_time_ms, page, region",
        where='to_kafka "enriched-views"',
    ),
    errors.UnknownMethod("the KStream PageViews has no method 'leftJoin'", hint="did you mean left_join(...)?"),
    errors.ConfigUnreadable("this is not YAML: expected ',' or '}', but got '{'", where="conf/enrichment.yml:5"),
    errors.UnknownKey(
        "there is no key 'kye'",
        hint="did you mean 'key'? known here: kind, topic, delta, changes, ignore_changes, key, value, event_time, max_future, history, null_values, expectations",
        where='conf/sources.yml:6  source "PageViews"',
    ),
    errors.ConfigInvalid(
        "kind is 'strem'; it is one of stream, table, global_table", where='conf/sources.yml:6  source "PageViews"'
    ),
    errors.ExpressionRefused(
        "the function 'reflect' at character 1 is not on the allow-list, in \"reflect('java.lang.System', 'exit')\"",
        where='conf/enrichment.yml:6  step "enriched"  select.page',
    ),
    errors.KafkaOptionRefused(
        "the option 'sasl.client.callback.handler.class' is refused: options that name classes load code",
        where="conf/sources.yml:4",
    ),
    errors.SecretUnresolved("kafka option sasl.jaas.config: the environment variable KAFKA_JAAS is not set"),
    errors.UnknownReference(
        "left_join.right refers to 'Users', which is neither a source nor a step",
        hint="there are: PageViews, UserProfiles",
        where='conf/enrichment.yml:4  step "enriched"',
    ),
    errors.BrokerUnreachable("no broker answers at localhost:9092: no answer in time"),
    errors.TopicMissing("topic UserProfiles does not exist on localhost:9092"),
    errors.TopicRecreated("topic PageViews partition 0 ends at offset 12, but 4711 were already read"),
    errors.OffsetsExpired("records expired before they were ingested:\nPageViews-0: offsets 4711 to 5000"),
    errors.TopicWriteFailed(
        "topic enriched-views of pipeline page_views: errors.TopicAuthorizationException: Not authorized to access topics",
        where='to_kafka "enriched-views"',
    ),
    errors.SignInFailed(
        "Kafka at localhost:9092 refuses the sign-in: SaslAuthenticationException: Authentication failed: Invalid "
        "username or password",
        hint="check user name and password, or token, in sasl.jaas.config, the secrets it refers to, and sasl.mechanism",
    ),
    errors.RightsMissing(
        "Kafka does not allow the pipeline to use one of PageViews, UserProfiles: TopicAuthorizationException: Topic "
        "authorization failed."
    ),
    errors.RegistryUnreachable("https://registry:8081: GET /schemas/ids/7: [Errno 111] Connection refused (4 tries)"),
    errors.RegistryRefused("https://registry:8081: GET /schemas/ids/7: 401 Unauthorized"),
    errors.SchemaMissing("the registry has no version 3 of subject orders-value"),
    errors.TooManyBadRecords(
        "PageViews: 240 of 2000 records (12.0%) cannot be read\nallowed is 5.0%; nothing of the cycle was published"
    ),
    errors.ExpectationFailed(
        "keys_not_null of PageViews: 2 of 300 records have no key\nPageViews-0@17\nPageViews-3@4",
        where='source "PageViews"',
    ),
    errors.UnwritablePartition(
        "silver.clicks: city = '' would be read back as another value\nnothing of the cycle was published",
        where='output "silver.clicks"',
    ),
    errors.BufferFull('suppress "latest": 10001 keys wait in task 3, max_records is 10000'),
    errors.UnwritableResult("registry_avro: amount: null is no int"),
    errors.NotInQuarantine(
        "there is nothing to replay in the quarantine of page_views: of the records that match: 3 replayed"
    ),
    errors.RepairUnfit("repairs.jsonl:2: has 'valeu'; did you mean 'value'?\nrepairs.jsonl:5: has no 'offset'"),
    errors.TableSchemaMismatch(
        "table silver.order_payments has other columns than the pipeline writes\n"
        "  ~ amount: int in the table, decimal(10,2) in the pipeline",
        where="lake/silver/order_payments",
    ),
    errors.LocationNotWritable("cannot write to lake/bronze: Permission denied"),
    errors.Fenced("a newer driver runs pipeline page_views; nothing was written"),
    errors.PlanUnderOtherConfig(
        "cycle 7 is partly published under another configuration (3f2a9c0d5e6b7a81)", where="silver.enriched_page_views"
    ),
    errors.IngestFailed("the ingest query of page_views stopped: OutOfMemoryError: Java heap space"),
    errors.LedgerInconsistent("plan 7 has no ranges or fingerprint"),
    errors.TableNameCollision(
        "topic page-views of clicks and topic page_views of clicks would both be written to bronze.clicks__page_views"
    ),
    errors.NothingToVerify("pipeline page_views has finished cycles 1 to 3; asked: 4 to 3"),
    errors.NoSuchRecord("bronze of page_views holds no record with the key 'zoe', and no output a row of it"),
    errors.BronzeTrimmed(
        "bronze of page_views is trimmed up to cycle 41; the earliest cycle that can be verified is 42; asked: 7",
        hint="lakestreams verify --from 42",
    ),
    errors.NothingToMaintain("pipeline page_views has never run in lake"),
    errors.TopologyChanged(
        "page_views has results of 12 cycles, and has changed since:\n"
        "  matched: before 5 minutes -> 10 minutes, after 5 minutes -> 10 minutes",
        where="pipeline 'page_views'",
    ),
    errors.TableDeleted(
        "table bronze.page_views__PageViews existed when the pipeline last ran, and is missing now",
        where="lake/bronze/page_views__PageViews",
    ),
    errors.TableChanged(
        "table silver.enriched_page_views was changed by others: DELETE in version 42",
        hint="RESTORE TABLE delta.`lake/silver/enriched_page_views` TO VERSION AS OF 41 undoes it; "
        "or, to accept the change, run once with --accept-change",
        where="lake/silver/enriched_page_views",
    ),
    errors.TableOwned(
        "table bronze.a__b__c belongs to pipeline a, topic b__c; pipeline a__b, topic c would be written to it, too",
        where="lake/bronze/a__b__c",
    ),
    errors.LedgerLost(
        "epoch 7 of page_views has written to bronze.page_views__PageViews, but the ledger knows no epoch of it"
    ),
    errors.TableUnreadable(
        "Encountered error while reading file file:/lake/silver/page_views/_delta_log/00000000000000000012.json\n"
        "JsonParseException: Unexpected end-of-input in VALUE_STRING"
    ),
    errors.JavaMissing("JAVA_HOME is not set and there is no java on PATH"),
    errors.JavaTooOld("java is version 11; Spark 4 and the broker need 17 or newer"),
    errors.JarsUnresolved("the Spark 4.2.0 connectors jars could not be resolved:\nconnection timed out"),
    errors.BrokerNotReady("the local broker ended before it was ready; its log ends with\nNo space left on device"),
    errors.PortTaken("port 9092 on 127.0.0.1 is in use"),
    errors.LocalPartsMissing("the package confluent_kafka is not installed"),
    errors.BundleInvalid(
        "task enrich: the wheel has no entry point enrich",
        hint="one of: correlation, enrichment, fk_join, maintain, pipeline, verify",
        where="resources/enrichment.job.yml  jobs.enrichment",
    ),
    errors.WorkspaceLacks(
        "secret scope 'lakestreams' has no key 'password'",
        hint="databricks secrets put-secret lakestreams password",
        where="conf/sources.yml",
    ),
    errors.WorkspaceUnreachable("no credentials for a workspace were found"),
    errors.ProjectExists("the folder my-streams has files already"),
    errors.DeltaTableMissing(
        "Delta table main.crm.customers cannot be read: [TABLE_OR_VIEW_NOT_FOUND] The table or view cannot be found.",
        where='table "customers"',
    ),
    errors.ChangeFeedOff(
        "Delta table main.crm.customers keeps no change data feed",
        hint="ALTER TABLE main.crm.customers SET TBLPROPERTIES (delta.enableChangeDataFeed = true), or read it with changes: snapshot",
        where='table "customers"',
    ),
    errors.RowsChanged("version 12 of main.sales.orders updates 3 rows and deletes 0", where='stream "orders"'),
)


def classes() -> list[type[LakestreamsError]]:
    """Every error class, the base among them, ordered by code."""
    return [LakestreamsError, *errors.catalogue()]


def page(cls: type[LakestreamsError], example: LakestreamsError) -> str:
    """The text of a page."""
    return (
        f"{MADE}\n# {cls.code} {cls.name}\n\n{meaning(cls)}\n\n**Fix:** {_fix(cls)}\n\n"
        f"As it is printed:\n\n```text\n{example}\n```\n\n[All errors](README.md)\n"
    )


def index() -> str:
    """The text of docs/errors/README.md."""
    lines = [
        MADE,
        "# Errors",
        "",
        "A code never changes its meaning. `--json` gives code, name, message, hint and place.",
    ]
    chapter = ""
    for cls in classes():
        if CHAPTERS[cls.code[2]] != chapter:
            chapter = CHAPTERS[cls.code[2]]
            lines += ["", f"## {chapter}", "", "| code | name | what it means |", "|---|---|---|"]
        first = " ".join(meaning(cls).partition("\n\n")[0].split())
        lines.append(f"| [{cls.code}]({cls.code}.md) | `{cls.name}` | {first} |")
    return "\n".join(lines) + "\n"


def pages() -> dict[str, str]:
    """File name to text, of all pages and their index."""
    examples = {type(one).code: one for one in EXAMPLES}
    made = {f"{cls.code}.md": page(cls, examples[cls.code]) for cls in classes()}
    return made | {"README.md": index()}


def outdated(folder: Path = FOLDER) -> list[str]:
    """Names of the files that are missing, have another text, or belong to no code."""
    wanted = pages()
    there = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.md")}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def main(arguments: Sequence[str]) -> int:
    """Writes the pages, or with `--check` only says which ones are not up to date."""
    names = outdated()
    if "--check" in arguments:
        print("\n".join(f"docs/errors/{name} is not up to date" for name in names), file=sys.stderr)
        return int(bool(names))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    for name in names:
        if name not in pages():
            (FOLDER / name).unlink()
    print(f"{len(names)} pages changed")
    return 0


def _fix(cls: type[LakestreamsError]) -> str:
    return (
        cls.hint[0].upper() + cls.hint[1:] if cls.hint[:1].isalpha() and not cls.hint.startswith("pip ") else cls.hint
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
