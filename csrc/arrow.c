/* SPDX-License-Identifier: Apache-2.0
 * Columns as Arrow's C data and stream interfaces, in memory of our own. A consumer may release
 * them in another thread, without the interpreter lock, and after Python has ended. A structure
 * that is moved out of its parent outlives it, so each has an allocation of its own. */
#include "dpf_impl.h"

#include <errno.h>
#include <stdlib.h>

typedef struct dpf_schema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct dpf_schema **children, *dictionary;
    void (*release)(struct dpf_schema *);
    void *private_data;
} dpf_schema;

typedef struct dpf_array {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct dpf_array **children, *dictionary;
    void (*release)(struct dpf_array *);
    void *private_data;
} dpf_array;

typedef struct dpf_stream {
    int (*get_schema)(struct dpf_stream *, dpf_schema *);
    int (*get_next)(struct dpf_stream *, dpf_array *);
    const char *(*get_last_error)(struct dpf_stream *);
    void (*release)(struct dpf_stream *);
    void *private_data;
} dpf_stream;

enum { NULLABLE = 2, ALIGNED = 64 }; /* as other libraries mark their columns; what Arrow recommends */

/* ------------------------------------------------------------------ schemas */

static void dpf_release_schema(dpf_schema *schema) {
    for (int64_t i = 0; i < schema->n_children; i++)
        if (schema->children[i]->release)
            schema->children[i]->release(schema->children[i]);
    free(schema->private_data);
    schema->release = NULL;
}

static int dpf_column_schema(dpf_schema *into, const dpf_column *column) {
    const size_t format = strlen(column->format) + 1, name = strlen(column->name) + 1;
    char *const texts = malloc(format + name);
    if (texts == NULL)
        return -1;
    memcpy(texts, column->format, format);
    memcpy(texts + format, column->name, name);
    *into = (dpf_schema){.format = texts, .name = texts + format, .flags = NULLABLE};
    into->private_data = texts;
    into->release = dpf_release_schema;
    return 0;
}

static int dpf_fill_schema(dpf_schema *into, const dpf_columns *of) {
    if (!of->rows)
        return dpf_column_schema(into, of->columns);
    dpf_schema **const children = calloc((size_t)of->n + 1, sizeof *children + sizeof **children);
    if (children == NULL)
        return -1;
    dpf_schema *const each = (dpf_schema *)(children + of->n + 1);
    *into = (dpf_schema){.format = "+s", .name = "", .n_children = of->n, .children = children};
    into->private_data = children;
    into->release = dpf_release_schema;
    int status = 0;
    for (int64_t i = 0; i < of->n; i++) {
        children[i] = each + i;
        status |= dpf_column_schema(each + i, of->columns + i);
    }
    if (status != 0)
        dpf_release_schema(into);
    return status;
}

/* ------------------------------------------------------------------ arrays */

static void dpf_release_array(dpf_array *array) {
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release)
            array->children[i]->release(array->children[i]);
    free(array->private_data);
    array->release = NULL;
}

static int dpf_column_array(dpf_array *into, const dpf_column *column, int64_t length) {
    const size_t size = (size_t)column->size;
    const void **const buffers = malloc(2 * ALIGNED + size); /* Windows has no aligned_alloc */
    if (buffers == NULL)
        return -1;
    char *const cells = (char *)buffers + ALIGNED + (-(uintptr_t)buffers & (ALIGNED - 1));
    buffers[0] = NULL; /* no nulls */
    buffers[1] = cells;
    if (size > 0)
        memcpy(cells, column->cells, size);
    *into = (dpf_array){.length = length, .n_buffers = 2, .buffers = buffers};
    into->private_data = (void *)buffers;
    into->release = dpf_release_array;
    return 0;
}

static int dpf_fill_array(dpf_array *into, const dpf_columns *of) {
    if (!of->rows)
        return dpf_column_array(into, of->columns, of->length);
    dpf_array **const children = calloc((size_t)of->n + 1, sizeof *children + sizeof **children);
    if (children == NULL)
        return -1;
    dpf_array *const each = (dpf_array *)(children + of->n + 1);
    *into = (dpf_array){.length = of->length, .n_buffers = 1, .n_children = of->n, .children = children};
    into->buffers = (const void **)(children + of->n); /* one pointer, null: no row is */
    into->private_data = children;
    into->release = dpf_release_array;
    int status = 0;
    for (int64_t i = 0; i < of->n; i++) {
        children[i] = each + i;
        status |= dpf_column_array(each + i, of->columns + i, of->length);
    }
    if (status != 0)
        dpf_release_array(into);
    return status;
}

/* ------------------------------------------------------------------ streams of one array */

typedef struct {
    dpf_schema schema;
    dpf_array array; /* all zeros once it is given */
    dpf_columns of;  /* their texts lie in the schema; each schema that is asked for is made from them */
} dpf_streamed;

static int dpf_get_schema(dpf_stream *stream, dpf_schema *into) {
    const dpf_streamed *const held = stream->private_data;
    return dpf_fill_schema(into, &held->of) == 0 ? 0 : ENOMEM;
}

static int dpf_get_next(dpf_stream *stream, dpf_array *into) {
    dpf_streamed *const held = stream->private_data;
    *into = held->array;
    memset(&held->array, 0, sizeof held->array);
    return 0;
}

static const char *dpf_get_last_error(dpf_stream *stream) {
    (void)stream;
    return "there is no memory"; /* nothing else can go wrong */
}

static void dpf_release_stream(dpf_stream *stream) {
    dpf_streamed *const held = stream->private_data;
    if (held->schema.release)
        held->schema.release(&held->schema);
    if (held->array.release)
        held->array.release(&held->array);
    free(held);
    stream->release = NULL;
}

static int dpf_fill_stream(dpf_stream *into, const dpf_columns *of) {
    dpf_streamed *const held = calloc(1, sizeof *held + (size_t)of->n * sizeof *of->columns);
    if (held == NULL)
        return -1;
    *into = (dpf_stream){dpf_get_schema, dpf_get_next, dpf_get_last_error, dpf_release_stream, held};
    if (dpf_fill_schema(&held->schema, of) != 0 || dpf_fill_array(&held->array, of) != 0) {
        dpf_release_stream(into);
        return -1;
    }
    dpf_column *const columns = (dpf_column *)(held + 1);
    for (int64_t i = 0; i < of->n; i++) {
        const dpf_schema *const one = of->rows ? held->schema.children[i] : &held->schema;
        columns[i] = (dpf_column){.format = one->format, .name = one->name};
    }
    held->of = (dpf_columns){.rows = of->rows, .n = of->n, .columns = columns};
    return 0;
}

/* ------------------------------------------------------------------ all three */

void *dpf_arrow_new(int kind) {
    return calloc(1, kind == DPF_ARROW_SCHEMA  ? sizeof(dpf_schema)
                     : kind == DPF_ARROW_ARRAY ? sizeof(dpf_array)
                                               : sizeof(dpf_stream));
}

int dpf_arrow_fill(int kind, void *into, const dpf_columns *of) {
    return kind == DPF_ARROW_SCHEMA  ? dpf_fill_schema(into, of)
           : kind == DPF_ARROW_ARRAY ? dpf_fill_array(into, of)
                                     : dpf_fill_stream(into, of);
}

void dpf_arrow_free(int kind, void *at) {
    dpf_schema *const schema = at;
    dpf_array *const array = at;
    dpf_stream *const stream = at;
    if (kind == DPF_ARROW_SCHEMA && schema->release)
        schema->release(schema);
    if (kind == DPF_ARROW_ARRAY && array->release)
        array->release(array);
    if (kind == DPF_ARROW_STREAM && stream->release)
        stream->release(stream);
    free(at);
}
