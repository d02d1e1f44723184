#pragma once

#include <utility>

#include "dsl/base/element.hpp"
#include "dsl/base/error.hpp"

namespace tessera {

/// Calls f.template operator()<E>() for the element of the list that equals `element`.
/// The caller has checked that it is one of them.
template <Element First, Element... Rest, class F>
decltype(auto) with_element(Element element, F&& f) {
    if (element == First) return f.template operator()<First>();
    if constexpr (sizeof...(Rest) > 0)
        return with_element<Rest...>(element, std::forward<F>(f));
    else
        throw InternalError("an element type that was not checked");
}

}  // namespace tessera
