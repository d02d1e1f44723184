#include <cstring>
#include <fmt/format.h>

#include "dsl/base/error.hpp"
#include "runtime/driver/driver.hpp"
#include "runtime/tensor.hpp"

namespace tessera {

namespace {

/// A copy of `rows` pieces of `width` bytes each, repeated over outer axes: the inner axes that are dense on both sides
/// are one piece.
struct Plan {
    std::size_t width = 0;
    std::int64_t rows = 1, destination_pitch = 0, source_pitch = 0;  // bytes
    Shape extents, destination_strides, source_strides;              // of the outer axes, in bytes
};

[[noreturn]] void refuse(const TensorView& d, const TensorView& s, const char* why) {
    throw UsageError(fmt::format("cannot copy {} {} to {} {}: {}", name_of(s.element), text_of(s.extents),
                                 name_of(d.element), text_of(d.extents), why));
}

void check(const Stream& stream, const TensorView& d, const TensorView& s) {
    if (d.element != s.element) refuse(d, s, "the element types differ, and a copy does not convert");
    if (!(d.extents == s.extents)) refuse(d, s, "the extents differ");
    if (d.read_only) refuse(d, s, "the destination is read-only");
    if (d.count() == 0) return;
    for (int axis = 0; axis < d.rank(); ++axis) {
        if (d.extents[axis] <= 1) continue;
        if (d.strides[axis] < 0 || s.strides[axis] < 0) refuse(d, s, "a stride is negative");
        if (d.strides[axis] == 0) refuse(d, s, "the destination repeats elements: a stride is 0");
    }
    for (const TensorView* v : {&d, &s})
        if (!v->device.is_host() && stream.device().is_host())
            refuse(d, s, "the stream belongs to the host; give a stream of the GPU");
    if (d.count() > 0 && (!d.data || !s.data)) refuse(d, s, "an address is null");
}

Plan plan_of(const TensorView& d, const TensorView& s) {
    Plan plan;
    const int bits = bits_of(d.element);
    std::int64_t run = 1;
    int axis = d.rank() - 1;
    for (; axis >= 0; --axis) {
        if (d.extents[axis] != 1 && (d.strides[axis] != run || s.strides[axis] != run)) break;
        run *= d.extents[axis];
    }
    const auto bytes = [&](std::int64_t elements) {
        if (elements * bits % 8 != 0) refuse(d, s, "a row begins within a byte");
        return elements * bits / 8;
    };
    plan.width = static_cast<std::size_t>(axis < 0 ? (run * bits + 7) / 8 : bytes(run));
    if (axis >= 0) {
        plan.rows = d.extents[axis];
        plan.destination_pitch = bytes(d.strides[axis]);
        plan.source_pitch = bytes(s.strides[axis]);
    }
    for (int outer = 0; outer < axis; ++outer) {
        plan.extents.push_back(d.extents[outer]);
        plan.destination_strides.push_back(bytes(d.strides[outer]));
        plan.source_strides.push_back(bytes(s.strides[outer]));
    }
    return plan;
}

/// Calls body(destination offset, source offset) for each position of the outer axes.
template <class Body>
void each_plane(const Plan& plan, Body&& body) {
    Shape at = plan.extents;
    for (int axis = 0; axis < at.rank(); ++axis) at[axis] = 0;
    while (true) {
        std::int64_t d = 0, s = 0;
        for (int axis = 0; axis < at.rank(); ++axis) {
            d += at[axis] * plan.destination_strides[axis];
            s += at[axis] * plan.source_strides[axis];
        }
        body(d, s);
        int axis = at.rank() - 1;
        while (axis >= 0 && ++at[axis] == plan.extents[axis]) at[axis--] = 0;
        if (axis < 0) return;
    }
}

void copy_on_host(const Plan& plan, char* destination, const char* source) {
    each_plane(plan, [&](std::int64_t d, std::int64_t s) {
        for (std::int64_t row = 0; row < plan.rows; ++row)
            std::memcpy(destination + d + row * plan.destination_pitch, source + s + row * plan.source_pitch,
                        plan.width);
    });
}

void copy_by_driver(const Stream& stream, const Plan& plan, std::uint64_t destination, std::uint64_t source) {
    const runtime::DriverApi& api = runtime::driver_api();
    constexpr std::int64_t max_pitch = 0x7FFFFFFF;
    const auto width = static_cast<std::int64_t>(plan.width);
    const bool planes = plan.rows > 1 && plan.source_pitch >= width && plan.source_pitch <= max_pitch &&
                        plan.destination_pitch <= max_pitch;
    each_plane(plan, [&](std::int64_t d, std::int64_t s) {
        const std::uint64_t to = destination + static_cast<std::uint64_t>(d),
                            from = source + static_cast<std::uint64_t>(s);
        if (planes) {
            runtime::Copy2D piece;
            piece.source = from, piece.source_pitch = static_cast<std::size_t>(plan.source_pitch);
            piece.destination = to, piece.destination_pitch = static_cast<std::size_t>(plan.destination_pitch);
            piece.width_bytes = plan.width, piece.height = static_cast<std::size_t>(plan.rows);
            runtime::check_driver(api.copy_2d(&piece, stream.handle()), "cuMemcpy2DAsync",
                                  fmt::format("copy {} rows of {} bytes", plan.rows, plan.width));
            return;
        }
        for (std::int64_t row = 0; row < plan.rows; ++row)
            runtime::check_driver(
                api.copy(to + static_cast<std::uint64_t>(row * plan.destination_pitch),
                         from + static_cast<std::uint64_t>(row * plan.source_pitch), plan.width, stream.handle()),
                "cuMemcpyAsync", fmt::format("copy {} bytes", plan.width));
    });
}

}  // namespace

void copy(const Stream& stream, const TensorView& destination, const TensorView& source) {
    check(stream, destination, source);
    if (destination.count() == 0) return;
    const Plan plan = plan_of(destination, source);
    if (stream.device().is_host()) {
        copy_on_host(plan, static_cast<char*>(destination.data), static_cast<const char*>(source.data));
        return;
    }
    {
        const runtime::CurrentContext current(stream.context());
        copy_by_driver(stream, plan, reinterpret_cast<std::uint64_t>(destination.data),
                       reinterpret_cast<std::uint64_t>(source.data));
    }
    if (destination.device.is_host() || source.device.is_host()) stream.synchronize();
}

}  // namespace tessera
