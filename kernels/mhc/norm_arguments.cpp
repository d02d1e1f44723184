#include "kernels/mhc/norm_arguments.hpp"

#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "kernels/check.hpp"
#include "kernels/mhc/norm_plan.hpp"

namespace tessera::mhc {

void check_aligned(const char* function, const char* name, const TensorView& t) {
    if (!aligned({&t}))
        throw UsageError(fmt::format("{}: {} begins at {}, but must begin at a multiple of 16 bytes", function, name,
                                     static_cast<const void*>(t.data)));
}

ResidualRows residual_rows(const char* function, const char* name, const Stream& stream, const TensorView& residual) {
    ResidualRows r{{}, tokens_of(function, name, residual, 2), 0, 0, 0};
    r.m = residual.extents[residual.rank() - 2], r.h = residual.extents.back(), r.inner = r.m * r.h;
    if (r.m < 1 || r.m > most_norm_streams)
        throw UsageError(
            fmt::format("{}: a token has {} streams; from 1 to {} are supported", function, r.m, most_norm_streams));
    if (r.inner < 64 || r.inner % 64 != 0)
        throw UsageError(fmt::format(
            "{}: a token has {} streams of {} channels; their product must be a multiple of 64", function, r.m, r.h));
    r.rows = like_rows(function, name, stream, residual, r);
    return r;
}

TensorView like_rows(const char* function, const char* name, const Stream& stream, const TensorView& t,
                     const ResidualRows& r) {
    TensorView rows = per_token(function, name, stream, t, bf16, r.tokens, {r.m, r.h});
    check_aligned(function, name, rows);
    rows.extents = {r.tokens, r.inner}, rows.strides = {r.inner, 1};
    return rows;
}

std::int64_t weight_rows(const char* function, const char* name, const Stream& stream, const TensorView& fn,
                         std::int64_t inner) {
    constexpr std::int64_t most = most_norm_streams * (most_norm_streams + 2);
    if (fn.rank() != 2 || fn.extents[0] < 1 || fn.extents[0] > most || fn.extents[1] != inner)
        throw UsageError(fmt::format("{}: {} has extents {}; it must have from 1 to {} rows, one for each logit, of {}",
                                     function, name, text_of(fn.extents), most, inner));
    check_dense(function, name, stream, fn, f32, fn.extents);
    check_aligned(function, name, fn);
    return fn.extents[0];
}

std::int64_t checked_splits(const char* function, const Stream& stream, std::int64_t asked, const ResidualRows& r) {
    if (asked < 0 || asked > most_splits)
        throw UsageError(fmt::format("{}: splits is {}; it is from 1 to {}, or 0 for a choice from the shape", function,
                                     asked, most_splits));
    return asked != 0 ? asked : norm_splits(r.tokens, r.inner, stream.device().target().multiprocessors);
}

}  // namespace tessera::mhc
