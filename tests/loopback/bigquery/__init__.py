"""BigQuery on loopback: REST as in its discovery document, Storage Read over gRPC, computing by DuckDB.

    cloud.bigquery.add_dataset("flights", location="EU")
    cloud.bigquery.write("test-project.flights.rows", pa.table(...))      # each time a new version, at the cloud's time
    cloud.bigquery.write("test-project.flights.rows", table, at=moment, partitioned="day")   # asks for a filter
    cloud.bigquery.add_view("test-project.flights.late", "SELECT ...")
    cloud.bigquery.held = True             # jobs run until they are released or cancelled
    cloud.bigquery.broken_streams = 1      # a stream of Storage Read breaks off after its first batch
    cloud.bigquery.environment             # what Google's clients need to be here

service.py    what the REST methods do
catalog.py    datasets, tables and their versions, views
sql.py        a query of BigQuery, for DuckDB: the past, views, partitions, bytes
types.py      types of BigQuery, of Arrow, and rows as JSON
reading.py    Storage Read
"""

from .service import SERVICES, BigQuery, refusal

__all__ = ["SERVICES", "BigQuery", "refusal"]
