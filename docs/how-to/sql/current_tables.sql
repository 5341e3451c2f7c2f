-- The live tables of the catalog with DuckDB alone, from the files of the newest manifest.
--
--   SET VARIABLE workspace = '.arco/tenant=default/workspace=default';
--   .read docs/how-to/sql/current_tables.sql
SET VARIABLE newest = (
    SELECT max(file)
    FROM glob(getvariable('workspace') || '/manifests/catalog/*.json')
    WHERE regexp_matches(file, '[/\\][0-9]{20}\.json$')
);
CREATE OR REPLACE TEMP TABLE manifest AS
    SELECT json_extract(content, '$.body') AS body FROM read_text(getvariable('newest'));
-- The files of large tables stand in an index; while there is none, the manifest names all files itself.
SET VARIABLE index = (
    SELECT coalesce(
        getvariable('workspace') || '/' || json_extract_string(body, '$.base.index.path'),
        getvariable('newest')
    ) FROM manifest
);
CREATE OR REPLACE TEMP TABLE base_index AS
    SELECT json_extract(content, '$.tables') AS tables FROM read_text(getvariable('index'));

-- The files of a table. A combined file has the rows of several tables, each in the column of its table's name.
CREATE OR REPLACE TEMP MACRO rows_of(name) AS (
    WITH refs AS (
        SELECT unnest(json_extract(body, '$.tail.' || name || '[*]')) AS ref FROM manifest
        UNION ALL
        SELECT json_extract(body, '$.base.whole.' || name) FROM manifest
        UNION ALL
        SELECT unnest(json_extract(tables, '$.' || name || '.*')) FROM base_index
    ),
    files AS (
        SELECT
            coalesce((ref ->> 'combined')::BOOLEAN, false) AS combined,
            string_agg(
                '''' || replace(getvariable('workspace') || '/' || (ref ->> 'path'), '''', '''''') || '''', ', '
            ) AS paths
        FROM refs
        WHERE ref IS NOT NULL
        GROUP BY ALL
    )
    SELECT string_agg(
        CASE WHEN combined THEN 'SELECT unnest(' || name || ') ' ELSE '' END
        || 'FROM read_parquet([' || paths || '], union_by_name = true)'
        || CASE WHEN combined THEN ' WHERE ' || name || ' IS NOT NULL' ELSE '' END,
        ' UNION ALL BY NAME '
    )
    FROM files
);
SET VARIABLE catalog_rows = rows_of('catalogs');
SET VARIABLE schema_rows = rows_of('schemas');
SET VARIABLE table_rows = rows_of('tables');

-- Of the rows with one key the newest counts. What lies in something that was dropped is dropped with it.
WITH RECURSIVE catalogs AS (
    FROM (
        FROM query(getvariable('catalog_rows'))
        QUALIFY row_number() OVER (PARTITION BY catalog_id ORDER BY _commit DESC, _position DESC) = 1
    )
    WHERE dropped_at IS NULL
),
schemas AS (
    FROM (
        FROM query(getvariable('schema_rows'))
        QUALIFY row_number() OVER (PARTITION BY schema_id ORDER BY _commit DESC, _position DESC) = 1
    )
    WHERE dropped_at IS NULL
),
live AS (
    SELECT s.schema_id, c.name AS catalog, s.path
    FROM schemas AS s
    JOIN catalogs AS c USING (catalog_id)
    WHERE s.parent_id IS NULL
    UNION ALL
    SELECT s.schema_id, live.catalog, s.path
    FROM schemas AS s
    JOIN live ON s.parent_id = live.schema_id
),
tables AS (
    FROM (
        FROM query(getvariable('table_rows'))
        QUALIFY row_number() OVER (PARTITION BY schema_id, table_id ORDER BY _commit DESC, _position DESC) = 1
    )
    WHERE dropped_at IS NULL AND NOT coalesce(_moved, false)
)
SELECT live.catalog, live.path AS schema, tables.name, tables.format, tables.location, tables.table_id
FROM tables
JOIN live USING (schema_id)
ORDER BY ALL;
