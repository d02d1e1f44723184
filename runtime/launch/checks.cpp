#include "runtime/launch/checks.hpp"

#include <algorithm>
#include <new>
#include <type_traits>

namespace tessera::runtime {

namespace {

/// Copies a list to `at`, which then lies behind it.
template <class T>
std::span<const T> put(std::byte*& at, std::span<const T> list) {
    static_assert(std::is_trivially_destructible_v<T> && sizeof(T) % 8 == 0 && alignof(T) <= 8);
    if (list.empty()) return {};
    std::byte* const begin = at;
    for (const T& each : list) {
        new (at) T(each);
        at += sizeof(T);
    }
    return {std::launder(reinterpret_cast<const T*>(begin)), list.size()};
}

}  // namespace

LaunchChecks::LaunchChecks(std::span<const TensorCheck> tensors, std::span<const ScalarBinding> scalars,
                           std::span<const LayoutCheck> layouts, std::span<const Term> terms, std::size_t grid_terms)
    : memory_(std::make_unique<std::byte[]>(tensors.size_bytes() + scalars.size_bytes() + layouts.size_bytes() +
                                            terms.size_bytes())) {
    std::byte* at = memory_.get();
    tensors_ = put(at, tensors);
    scalars_ = put(at, scalars);
    layouts_ = put(at, layouts);
    const std::span<const Term> all = put(at, terms);
    terms_ = all.data();
    grid_ = all.last(grid_terms);
    given_ = static_cast<std::size_t>(std::count_if(
        scalars.begin(), scalars.end(), [](const ScalarBinding& s) { return s.from == ScalarBinding::From::given; }));
}

}  // namespace tessera::runtime
