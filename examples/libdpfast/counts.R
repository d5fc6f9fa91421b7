# SPDX-License-Identifier: Apache-2.0
# A private table and ten million private counts from R: epsilon 0.1, and a person is one row.
# Rscript counts.R LIBRARY    where LIBRARY is counts_r.c, compiled.
dll <- dyn.load(commandArgs(TRUE)[1])
routine <- getNativeSymbolInfo("noisy", dll)

# Noise of the discrete Laplace distribution on all counts, by one draw; names and shape are kept. A
# class other than table can mean other numbers than it holds, as bit64's does.
noisy <- function(counts, scale) {
    if (is.object(counts) && !identical(class(counts), "table"))
        stop("no release: counts are a vector or a table", call. = FALSE)
    released <- .Call(routine, counts, scale)
    shape <- attributes(counts)
    attributes(released) <- shape[names(shape) %in% c("names", "dim", "dimnames", "class")]
    released
}

# The levels are a public list: a region without a person is there, as zero.
regions <- c("East", "Islands", "North", "South", "West")
people <- factor(rep(c("East", "North", "South"), c(33333, 33334, 33333)), levels = regions)
exact <- table(people)
released <- noisy(exact, "1/0.1")
print(released)

refused <- function(counts, scale = "10") {
    said <- tryCatch(do.call(noisy, list(counts, scale)), error = identity)
    inherits(said, "error") && is.null(conditionCall(said)) && grepl("^no release: ", conditionMessage(said)) &&
        !grepl("424242", conditionMessage(said))
}
stopifnot(
    identical(names(released), regions), all(abs(released - exact) <= 400), # by chance once in 10^16
    identical(exact, table(people)), # the caller's counts are as they were
    refused(c(424242L, NA)), refused(c(424242, NA)), refused(NaN), refused(Inf), refused(424242.5),
    refused(2^53), refused(-2^53), refused("424242"), refused(TRUE), refused(NULL), refused(list(424242)),
    refused(people), refused(structure(0, class = "integer64")), refused(Sys.Date()),
    refused(424242, "abc"), refused(424242, "0"), refused(424242, "-1"), refused(424242, ""), refused(424242, 10),
    refused(424242, NA_character_), refused(424242, c("1", "2")), refused(424242, "1e60"),
    identical(noisy(numeric(), "10"), numeric()), !identical(noisy(1:5, "1e12"), noisy(1:5, "1e12")) # equal with chance 2^-200
)

counts <- rep(0:999, 10000)
time <- system.time(noisy(counts, "1/0.1"))[["elapsed"]]
cat(sprintf("R: %.2f ns a count\n", time * 1e9 / length(counts)))
