# Databricks notebook source
# MAGIC %md
# MAGIC # The joins, on a few records
# MAGIC
# MAGIC Three joins, tried by hand: records go in one at a time, and each result is asserted. There is no broker here and no
# MAGIC table is written, so nothing can be broken: change a record, run the cells again, and see what becomes of it.
# MAGIC
# MAGIC On Databricks the next cell installs the wheel; it changes nothing where the compute has that version already. On a laptop,
# MAGIC where lakestreams is installed with its local parts, it runs as a script: `python notebooks/tutorial_joins.py`

# COMMAND ----------

from pathlib import Path

wheel = str(max(Path().glob("../wheels/*.whl"), default="../wheels/*.whl"))  # the file that the jobs install

# COMMAND ----------

# MAGIC %pip install --quiet $wheel

# COMMAND ----------

# MAGIC %restart_python

# COMMAND ----------

import os

from pyspark.sql import functions as F

from lakestreams import Json, StreamsBuilder, Text
from lakestreams.testing import TopologyTestDriver

WINDOWS = ["1 minute", "5 minutes", "10 minutes"]


def parameter(name, default, choices):
    """A widget's value on Databricks, else the environment's LAKESTREAMS_<NAME>."""
    if "dbutils" not in globals():
        return os.environ.get(f"LAKESTREAMS_{name.upper()}") or default
    dbutils.widgets.dropdown(name, default, choices)
    return dbutils.widgets.get(name)


within = parameter("within", "5 minutes", WINDOWS)

if "spark" not in globals():  # Databricks has made one
    from lakestreams.local.session import spark_session

    spark = spark_session("tutorial", quick=True)

SECOND, MINUTE = 1_000, 60_000  # times are milliseconds
checked = []


def holds(what, found, expected):
    """An asserted value; `checked` lists them all."""
    assert found == expected, f"{what}: {found}, expected {expected}"
    checked.append(what)
    print(f"holds: {what}")


def show(results):
    """Prints results, and gives them as (key, value, time)."""
    for one in results:
        print(f"{one.timestamp / SECOND:>7.0f} s  {one.key}  {one.value}  {one.kind}, after record {one.cause}")
    return [(one.key, one.value, one.timestamp) for one in results]


# COMMAND ----------

# MAGIC %md
# MAGIC ## 1. A stream with a table
# MAGIC
# MAGIC A stream is what happened: page views. A table is what is known now: the region of each user. A later record of a key
# MAGIC replaces the row, and one without a value deletes it.
# MAGIC
# MAGIC The left join gives each view one result, at once, with the row that its user has at that moment. It never goes back:
# MAGIC a region that comes later is for later views.

# COMMAND ----------

builder = StreamsBuilder("page_views")
views = builder.stream("PageViews", key=Text("user"), value=Text("page"))
users = builder.table("UserProfiles", key=Text("user"), value=Text("region"))
views.left_join(
    users, lambda view, user: {"page": view.page, "region": F.coalesce(user.region, F.lit("<unknown>"))}, name="enriched"
).to_delta("views")
page_views = builder.build()
print(page_views.describe())

# COMMAND ----------

# MAGIC %md
# MAGIC The driver takes records in the order in which they are piped: source, key, value, time. Ada has no region at her first
# MAGIC view; then she has one, it changes, and it is deleted.

# COMMAND ----------

driver = TopologyTestDriver(page_views, spark)
driver.pipe("PageViews", "ada", "/home", 1 * SECOND)
driver.pipe("UserProfiles", "ada", "eu-west", 2 * SECOND)
driver.pipe("PageViews", "ada", "/cart", 3 * SECOND)
driver.pipe("UserProfiles", "ada", "us-east", 4 * SECOND)
driver.pipe("PageViews", "ada", "/pay", 5 * SECOND)
driver.pipe("UserProfiles", "ada", None, 6 * SECOND)
driver.pipe("PageViews", "ada", "/home", 7 * SECOND)
holds(
    "each view has the region that was known when it came",
    show(driver.read()),
    [
        ("ada", {"page": "/home", "region": "<unknown>"}, 1 * SECOND),
        ("ada", {"page": "/cart", "region": "eu-west"}, 3 * SECOND),
        ("ada", {"page": "/pay", "region": "us-east"}, 5 * SECOND),
        ("ada", {"page": "/home", "region": "<unknown>"}, 7 * SECOND),
    ],
)

# COMMAND ----------

# MAGIC %md
# MAGIC ### What cannot be used is told
# MAGIC
# MAGIC A view without a page, and one whose bytes are no text. A job puts such records into quarantine; the driver lists them:
# MAGIC the number of the piped record (the first one is 0), the step, the reason.

# COMMAND ----------

driver.pipe("PageViews", "ada", None, 8 * SECOND)
driver.pipe("PageViews", "ada", b"\xff", 9 * SECOND)
refused = [(one.cause, one.node, one.code) for one in driver.refused()]
holds("neither gives a result", show(driver.read()), [])
holds("both are refused, with a reason", refused, [(7, "PageViews", "NULL_VALUE"), (8, "PageViews", "MALFORMED_VALUE")])

# COMMAND ----------

# MAGIC %md
# MAGIC ## 2. Two streams in a window
# MAGIC
# MAGIC Orders and payments both happen. A payment belongs to the order of its key if their times lie no further apart than the
# MAGIC window, whichever of them comes first. The widget `within` sets it; on a laptop `LAKESTREAMS_WITHIN='10 minutes'` does.
# MAGIC
# MAGIC The left join also gives the orders that nobody paid. That can only be told when their window is over, so their row
# MAGIC waits until then.

# COMMAND ----------

builder = StreamsBuilder("order_payments")
orders = builder.stream("Orders", key=Text("order_id"), value=Json("amount int"))
payments = builder.stream("Payments", key=Text("order_id"), value=Json("reference string"))
orders.left_join(payments, within=within, name="paid").to_delta("order_payments")
order_payments = builder.build()
print(order_payments.describe())

# COMMAND ----------

# MAGIC %md
# MAGIC Three orders, a second apart. Nothing comes out: all of them may still be paid.

# COMMAND ----------

ordered = {"o1": 0, "o2": 1 * SECOND, "o3": 2 * SECOND}
paid = {"o1": 40 * SECOND, "o2": 7 * MINUTE}  # nobody pays o3

driver = TopologyTestDriver(order_payments, spark)
for order, time in ordered.items():
    driver.pipe("Orders", order, {"amount": 10}, time)
holds("no order has a result while its window is open", show(driver.read()), [])

# COMMAND ----------

# MAGIC %md
# MAGIC Then the payments, and no more records. Time moves with records, so `advance` tells that it goes on; in a job that is
# MAGIC what `idle_timeout` does when a topic falls silent.
# MAGIC
# MAGIC With a window of 5 minutes the payment of o2 comes too late. A matched row has the later time of both, an unmatched one
# MAGIC its order's.

# COMMAND ----------

for order, time in paid.items():
    driver.pipe("Payments", order, {"reference": f"payment of {order}"}, time)
driver.advance(24 * 60 * MINUTE)
rows = {key: (value["reference"], time) for key, value, time in show(driver.read())}

# COMMAND ----------

# MAGIC %md
# MAGIC What must come out follows from the times alone, for whatever window the widget has:

# COMMAND ----------

window = next(node for node in order_payments.nodes if node.name == "paid")
in_time = {order for order, time in paid.items() if -window.before_ms <= time - ordered[order] <= window.after_ms}
expected = {
    order: (f"payment of {order}", paid[order]) if order in in_time else (None, time) for order, time in ordered.items()
}
holds(f"orders paid within {within} are matched, and each of the others has one row without a payment", rows, expected)

# COMMAND ----------

# MAGIC %md
# MAGIC An order that comes now, with a time whose window is long over, is late. It can have no fair result any more: it is refused.
# MAGIC A join that should take such records declares `grace="1 hour"`, and its unmatched rows wait that much longer.

# COMMAND ----------

driver.pipe("Orders", "o4", {"amount": 10}, 3 * SECOND)
holds("a late order gives no row", show(driver.read()), [])
holds("it is refused as late", [(one.node, one.code) for one in driver.refused()], [("paid", "LATE")])

# COMMAND ----------

# MAGIC %md
# MAGIC ## 3. Two tables by foreign key
# MAGIC
# MAGIC Each order names its customer in its value. Both are tables, so the result is one as well: a row an order, always that
# MAGIC of now. A changed customer changes the rows of all its orders.

# COMMAND ----------

builder = StreamsBuilder("orders_by_customer")
orders = builder.table("Orders", key=Text("order_id"), value=Json("customer_id string, amount int"))
customers = builder.table("Customers", key=Text("customer_id"), value=Json("name string"))
orders.left_join(
    customers, lambda order, customer: {"amount": order.amount, "name": customer.name}, left_on="customer_id", name="named"
).to_delta("orders_with_names")
orders_by_customer = builder.build()
print(orders_by_customer.describe())

# COMMAND ----------

# MAGIC %md
# MAGIC `read` gives the changes, `table` what the rows are after them. The customer of o3 is not there yet.

# COMMAND ----------

driver = TopologyTestDriver(orders_by_customer, spark)
driver.pipe("Customers", "c1", {"name": "Ada"}, 0)
driver.pipe("Orders", "o1", {"customer_id": "c1", "amount": 10}, 1 * SECOND)
driver.pipe("Orders", "o2", {"customer_id": "c1", "amount": 20}, 2 * SECOND)
driver.pipe("Orders", "o3", {"customer_id": "c2", "amount": 30}, 3 * SECOND)
holds("each order gives one row", len(show(driver.read())), 3)
holds(
    "a customer who is not there has no name",
    driver.table(),
    {"o1": {"amount": 10, "name": "Ada"}, "o2": {"amount": 20, "name": "Ada"}, "o3": {"amount": 30, "name": None}},
)

# COMMAND ----------

# MAGIC %md
# MAGIC One record renames the customer of two orders, another brings the one that was missing, and o1 is deleted.

# COMMAND ----------

driver.pipe("Customers", "c1", {"name": "Ada Lovelace"}, 4 * SECOND)
driver.pipe("Customers", "c2", {"name": "Grace"}, 5 * SECOND)
driver.pipe("Orders", "o1", None, 6 * SECOND)
changes = driver.read()
show(changes)
holds(
    "the new name reaches both of its orders, and the deletion is told",
    sorted((one.cause, one.key, one.value and one.value["name"]) for one in changes),
    [(4, "o1", "Ada Lovelace"), (4, "o2", "Ada Lovelace"), (5, "o3", "Grace"), (6, "o1", None)],
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What must hold, at the end

# COMMAND ----------

holds(
    "the table has the orders that there are, with the names of now",
    driver.table(),
    {"o2": {"amount": 20, "name": "Ada Lovelace"}, "o3": {"amount": 30, "name": "Grace"}},
)
print(f"{len(checked)} statements hold, with a window of {within}")

# COMMAND ----------

# MAGIC %md
# MAGIC The same three joins are the jobs `enrichment`, `correlation` and `fk_join`: there the records come from Kafka and the
# MAGIC results stand in Delta tables. The notebooks named `explore_` look at those.
