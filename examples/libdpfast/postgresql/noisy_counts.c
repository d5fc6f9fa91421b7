/* SPDX-License-Identifier: Apache-2.0
 * The aggregate noisy_counts of PostgreSQL. It collects the counts of all groups, and its final
 * function adds noise to them by one call, under one key. No text of an error tells a count. */
#include <postgres.h>
#include <catalog/pg_type_d.h>
#include <dpfast.h>
#include <fmgr.h>
#include <nodes/primnodes.h>
#include <utils/array.h>
#include <utils/builtins.h>

PG_MODULE_MAGIC;
StaticAssertDecl(sizeof(Datum) == sizeof(int64), "an array of Datum is one of counts");

typedef struct {
    ArrayBuildState *counts;
    char *scale;
    bool drawn;
} Batch;

static void refuse(const char *why) {
    ereport(ERROR, errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("no release: %s", why));
}

PG_FUNCTION_INFO_V1(noisy_counts_collect);
Datum noisy_counts_collect(PG_FUNCTION_ARGS) {
    MemoryContext lasting;
    if (AggCheckCallContext(fcinfo, &lasting) != AGG_CONTEXT_AGGREGATE)
        refuse("noisy_counts is an aggregate, and no window function");
    if (PG_ARGISNULL(1) || PG_ARGISNULL(2))
        refuse("a count or a scale is NULL");
    Batch *batch = PG_ARGISNULL(0) ? NULL : (Batch *)PG_GETARG_POINTER(0);
    const char *const scale = text_to_cstring(PG_GETARG_TEXT_PP(2));
    if (batch == NULL) {
        batch = MemoryContextAllocZero(lasting, sizeof *batch);
        batch->counts = initArrayResult(INT8OID, lasting, false);
        batch->scale = MemoryContextStrdup(lasting, scale);
    }
    if (batch->drawn)
        refuse("a count came after the noise");
    if (strcmp(batch->scale, scale) != 0)
        refuse("one draw has one scale");
    if (batch->counts->nelems == 1 << 26) /* PostgreSQL's own error would speak of memory */
        refuse("a batch holds no more than 67,108,864 counts");
    accumArrayResult(batch->counts, PG_GETARG_DATUM(1), false, INT8OID, lasting);
    PG_RETURN_POINTER(batch);
}

PG_FUNCTION_INFO_V1(noisy_counts_draw);
Datum noisy_counts_draw(PG_FUNCTION_ARGS) {
    if (PG_ARGISNULL(0))
        PG_RETURN_NULL(); /* as array_agg of no groups */
    Batch *const batch = (Batch *)PG_GETARG_POINTER(0);
    ArrayBuildState *const counts = batch->counts;
    /* ressortgroupref is set if the call says DISTINCT, or ORDER BY this very argument. */
    if (linitial_node(TargetEntry, AggGetAggref(fcinfo)->args)->ressortgroupref != 0)
        refuse("which counts are equal or greater is private: no DISTINCT, and order by names");
    if (!batch->drawn) { /* a plan may ask for a batch again, and gets the same noise */
        int64 *const values = (int64 *)counts->dvalues;
        dpfast_noise *noise = NULL;
        int status = dpfast_discrete_laplace(batch->scale, &noise);
        if (status == DPFAST_OK)
            status = dpfast_add_int64(noise, counts->nelems, values, values, PG_INT64_MIN, PG_INT64_MAX);
        dpfast_free(noise); /* before an error jumps away */
        if (status != DPFAST_OK)
            refuse(dpfast_message(status));
        batch->drawn = true;
        elog(DEBUG1, "noise for %d groups, by one draw", counts->nelems);
    }
    PG_RETURN_DATUM(makeArrayResult(counts, CurrentMemoryContext));
}
