#pragma once

#include <stdexcept>
#include <string>

#include "dsl/base/place.hpp"

namespace tessera {

/// Base of the three error classes; no other exception leaves the library.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The caller or kernel writer did something that cannot work. The text says what, where and the cure.
class UsageError : public Error {
public:
    explicit UsageError(const std::string& what) : Error(what) {}
    /// Prefixes "file:line: " of the writer's place.
    UsageError(const Place& place, const std::string& what);
};

/// A kernel's generated text did not compile, or the compiler could not be used.
class CompileError : public Error {
public:
    using Error::Error;
};

/// A rule of the library itself was broken; the text asks to report it.
class InternalError : public Error {
public:
    explicit InternalError(const std::string& what);
};

/// Throws InternalError with `what` unless `holds`.
void require_internal(bool holds, const char* what);

}  // namespace tessera
