#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/driver/api.hpp"
#include "runtime/launch/plan.hpp"

namespace tessera::runtime {

/// The tensor maps that launches of one kernel hand to the copy engine: each describes a bound tensor, from its
/// address, extents and strides. The driver encodes them; the latest of each map are remembered, so that launches on
/// the same tensors encode nothing. Thread-safe; nothing is allocated after construction.
class TensorMaps {
public:
    /// Keeps a reference to the plan.
    explicit TensorMaps(const LaunchPlan& plan);

    std::size_t count() const { return kinds_.size(); }

    /// What the plan has bound, as a map could say it. Errors: UsageError for a tensor without elements, or whose
    /// extents or strides are beyond what the copy engine counts to.
    void check(std::span<const std::uint64_t> values) const;

    /// Writes count() maps of these tensors; `values` as LaunchPlan::bind gave them. The driver wants a context of the
    /// device for what is not remembered; it is no call that a capture minds.
    /// Errors: as check, and UsageError if the driver refuses.
    void encode(void* context, std::span<const TensorRef> tensors, std::span<const std::uint64_t> values,
                TensorMapWords* into);

private:
    static constexpr std::size_t most_axes = 5, remembered = 8;
    /// What decides the words of a map: the address, then extents and strides in bytes, the contiguous axis first.
    struct Key {
        std::uint64_t address = 0;
        std::array<std::uint64_t, most_axes> extents{}, strides{};
        friend bool operator==(const Key&, const Key&) = default;
    };
    struct Known {
        Key key;  // of no tensor while the address is null
        TensorMapWords words;
    };
    struct Kind {
        const ir::TensorMap* map;
        std::array<Known, remembered> known;
        std::size_t next = 0;  // whose place the next one takes
    };

    Key key_of(const ir::TensorMap& map, std::span<const std::uint64_t> values, const void* data) const;
    void encode(const ir::TensorMap& map, const Key& key, TensorMapWords& words) const;

    const LaunchPlan& plan_;
    std::mutex mutex_;
    std::vector<Kind> kinds_;
};

}  // namespace tessera::runtime
