-- SPDX-License-Identifier: Apache-2.0
-- Ten million private counts from PostgreSQL, beside what it takes only to collect them.
SELECT clock_timestamp() AS begin \gset
SELECT cardinality(array_agg(i % 1000::bigint)) AS n FROM (SELECT generate_series(1, 10000000) AS i) AS counts \gset
SELECT clock_timestamp() AS between \gset
SELECT cardinality(noisy_counts(i % 1000, '1/0.1')) AS n FROM (SELECT generate_series(1, 10000000) AS i) AS counts \gset
SELECT clock_timestamp() AS end \gset
SELECT format('PostgreSQL: %s ns a count; array_agg alone: %s', round(1e9 * extract(epoch FROM :'end'::timestamptz - :'between') / :n, 2),
              round(1e9 * extract(epoch FROM :'between'::timestamptz - :'begin') / :n, 2));
