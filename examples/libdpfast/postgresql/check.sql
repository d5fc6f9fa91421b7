-- SPDX-License-Identifier: Apache-2.0
-- What noisy_counts promises, after release.sql: a server that breaks a promise ends the run.
CREATE FUNCTION pg_temp.refusal(query text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE query;
    RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLERRM;
END $$;

DO $$
DECLARE
    query text;
    wanted text;
    said text;
BEGIN
    ASSERT (SELECT array_agg(region ORDER BY region) FROM released) = '{East,Islands,North,South,West}', 'a group is missing';
    ASSERT (SELECT bool_and(abs(people - CASE WHEN region IN ('Islands', 'West') THEN 0 ELSE 33333 END) <= 400)
            FROM released), 'the noise is wider than 40 times its scale'; -- by chance once in 10^16
    FOR query, wanted IN VALUES
        ('noisy_counts(NULL, ''10'') FROM regions', 'a count or a scale is NULL'),
        ('noisy_counts(424242, NULL) FROM regions', 'a count or a scale is NULL'),
        ('noisy_counts(424242, ''abc'') FROM regions', 'the text is no number above 0'),
        ('noisy_counts(424242, ''0'') FROM regions', 'the text is no number above 0'),
        ('noisy_counts(424242, ''-10'') FROM regions', 'the text is no number above 0'),
        ('noisy_counts(424242, '''') FROM regions', 'the text is no number above 0'),
        ('noisy_counts(424242, ''1e60'') FROM regions', 'the scale is out of range'),
        ('noisy_counts(424242, region) FROM regions', 'one draw has one scale'),
        ('noisy_counts(n, ''10'' ORDER BY n) FROM generate_series(424242, 424243) AS n', 'equal or greater is private'),
        ('noisy_counts(DISTINCT 424242, ''10'') FROM regions', 'equal or greater is private'),
        ('noisy_counts(424242, ''10'') OVER () FROM regions', 'does not support use as a window function'),
        ('noisy_counts(424242, ''10'') OVER (ORDER BY region) FROM regions', 'does not support use as a window function')
    LOOP
        said := pg_temp.refusal('SELECT ' || query);
        ASSERT said ~ wanted AND said !~ '42424[23]', query || ': ' || said;
    END LOOP;
    -- Equal calls of a query are one call. Five draws at this scale are equal with chance 2^-250.
    ASSERT (SELECT noisy_counts(0, '1e15') = noisy_counts(0, '1e15') FROM regions), 'a batch has two versions';
    ASSERT (SELECT noisy_counts(0, '1e15') FROM regions) <> (SELECT noisy_counts(0, '1e15') FROM regions), 'two batches have one key';
    ASSERT (SELECT noisy_counts(0, '10') FROM regions WHERE false) IS NULL, 'there is noise for no group';
    -- A plan that asks for a batch again has the same noise, if it kept the batch, as HashAggregate does.
    SET LOCAL enable_material = off;
    ASSERT (SELECT count(DISTINCT counts) = 2 FROM generate_series(1, 3) LEFT JOIN
            (SELECT noisy_counts(0, '1e15') AS counts FROM regions GROUP BY region > 'M') AS batches ON true),
        'a batch asked for again has other noise';
END $$;
