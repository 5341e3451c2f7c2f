-- Checks the chain of a domain's manifests with DuckDB alone: every entry against its own checksum, every
-- parent against the hash that its child names, and no number missing in between.
-- No rows: all is well. The chain begins at its floor; what lies below it was collected.
--
--   SET VARIABLE workspace = '.arco/tenant=default/workspace=default';
--   SET VARIABLE domain = 'catalog';
--   .read docs/how-to/sql/check_chain.sql
WITH links AS (
    SELECT
        CAST(regexp_extract(filename, '([0-9]{20})\.json$', 1) AS BIGINT) AS number,
        content,
        sha256(content) AS sha256
    FROM read_text(getvariable('workspace') || '/manifests/' || getvariable('domain') || '/*.json')
    WHERE regexp_matches(filename, '[/\\][0-9]{20}\.json$')
),
entries AS (
    SELECT
        number,
        sha256,
        -- An entry ends with ,"checksum":" and 64 digits and "} for all bytes before them.
        regexp_extract(content, '^(.*),"checksum":"([0-9a-f]{64})"\}$', ['content', 'checksum'], 's') AS parts,
        TRY(CAST(json_extract_string(content, '$.number') AS BIGINT)) AS says_number,
        TRY(json_extract_string(content, '$.parent_sha256')) AS parent_sha256,
        TRY(CAST(json_extract_string(content, '$.created_at') AS TIMESTAMPTZ)) AS created_at
    FROM links
),
side_by_side AS (
    SELECT
        *,
        lag(number) OVER (ORDER BY number) AS parent_number,
        lag(sha256) OVER (ORDER BY number) AS hash_of_parent,
        lag(created_at) OVER (ORDER BY number) AS time_of_parent
    FROM entries
),
judged AS (
    SELECT
        number,
        CASE
            WHEN sha256(parts.content) <> parts.checksum THEN 'does not match its checksum'
            WHEN says_number IS DISTINCT FROM number THEN 'says that it is another number'
            WHEN number = 0 AND parent_sha256 IS NOT NULL THEN 'names a parent'
            WHEN number > 0 AND parent_sha256 IS NULL THEN 'names no parent'
            WHEN parent_number < number - 1 THEN 'has no parent: the number below it is missing'
            WHEN hash_of_parent <> parent_sha256 THEN 'names another hash than its parent has'
            WHEN time_of_parent >= created_at THEN 'is not younger than its parent'
        END AS problem
    FROM side_by_side
)
SELECT number, problem FROM judged WHERE problem IS NOT NULL ORDER BY number;
