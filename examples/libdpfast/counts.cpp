// SPDX-License-Identifier: Apache-2.0
// Ten million private counts from C++: epsilon 0.1, and a person is in one count.
#include <chrono>
#include <cstdio>
#include <dpfast.h>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {
using Noise = std::unique_ptr<dpfast_noise, decltype(&dpfast_free)>;

void done(int status) {
    if (status != DPFAST_OK)
        throw std::runtime_error(dpfast_message(status));
}

Noise discrete_laplace(const char *scale) {
    dpfast_noise *made = nullptr;
    done(dpfast_discrete_laplace(scale, &made));
    return {made, dpfast_free};
}
} // namespace

int main() {
    using limits = std::numeric_limits<std::int64_t>;
    std::vector<std::int64_t> counts(10'000'000);
    for (std::size_t i = 0; i < counts.size(); i++)
        counts[i] = static_cast<std::int64_t>(i % 1000);
    try {
        const Noise noise = discrete_laplace("1/0.1");
        const auto begin = std::chrono::steady_clock::now();
        done(dpfast_add_int64(noise.get(), static_cast<std::int64_t>(counts.size()), counts.data(), counts.data(),
                              limits::min(), limits::max()));
        const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
        std::printf("C++: %.2f ns a count\n", took.count() / static_cast<double>(counts.size()));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "no release: %s\n", error.what());
        return 1;
    }
}
