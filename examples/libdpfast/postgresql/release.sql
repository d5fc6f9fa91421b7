-- SPDX-License-Identifier: Apache-2.0
-- A release at epsilon 0.1. A person is one row, so one person changes one count by one: PRIMARY KEY
-- holds it. Whoever may read `people`, or call noisy_counts on it twice, has more than the release.
CREATE TABLE people (person bigint PRIMARY KEY, region text NOT NULL);
INSERT INTO people SELECT i, (ARRAY['East', 'North', 'South'])[1 + i % 3] FROM generate_series(1, 100000) AS i;

-- All groups there can be, from a public source. If the rows of `people` made the list, a group
-- would be there because of a person in it. Rows of any other region are not counted.
CREATE TABLE regions (region text PRIMARY KEY);
INSERT INTO regions VALUES ('East'), ('Islands'), ('North'), ('South'), ('West');

-- The draw goes to a table, which is what is published: each query that draws is another release,
-- and nobody adds up what they spend. MATERIALIZED: a plan that comes to `batch` twice draws once.
-- Both arrays have the order of the names, which is public.
CREATE TABLE released AS
WITH exact AS (
    SELECT region, count(person) AS people FROM regions LEFT JOIN people USING (region) GROUP BY region
), batch AS MATERIALIZED (
    SELECT array_agg(region ORDER BY region) AS regions, noisy_counts(people, '1/0.1' ORDER BY region) AS counts
    FROM exact
)
SELECT released.* FROM batch, unnest(regions, counts) AS released (region, people);

SELECT * FROM released ORDER BY region; -- noise goes below 0, too, so that sums stay unbiased
