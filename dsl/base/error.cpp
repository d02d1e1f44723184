#include "dsl/base/error.hpp"

namespace tessera {

namespace {
std::string with_place(const Place& place, const std::string& what) {
    return std::string(place.file) + ":" + std::to_string(place.line) + ": " + what;
}
}  // namespace

UsageError::UsageError(const Place& place, const std::string& what) : Error(with_place(place, what)) {}

InternalError::InternalError(const std::string& what)
    : Error("tessera: internal error: " + what + " (please report this with the program that caused it)") {}

void require_internal(bool holds, const char* what) {
    if (!holds) throw InternalError(what);
}

}  // namespace tessera
