-- SPDX-License-Identifier: Apache-2.0
-- noisy_counts(count, scale): an array of the counts with noise of the discrete Laplace
-- distribution, all by one draw. The scale is a text, sensitivity/epsilon as '1/0.1', and exact.
--
-- READ_WRITE: no other aggregate shares the state, and PostgreSQL refuses a window, which would ask
-- for a result after each row. RESTRICTED: workers may count, and the leader alone draws. There is
-- no function that combines states, so no part of a batch is drawn apart.
CREATE FUNCTION noisy_counts_collect(internal, bigint, text) RETURNS internal
    AS :'module' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
CREATE FUNCTION noisy_counts_draw(internal) RETURNS bigint[]
    AS :'module' LANGUAGE C VOLATILE PARALLEL RESTRICTED;
CREATE AGGREGATE noisy_counts(bigint, text) (
    SFUNC = noisy_counts_collect,
    STYPE = internal,
    FINALFUNC = noisy_counts_draw,
    FINALFUNC_MODIFY = READ_WRITE,
    PARALLEL = RESTRICTED
);
