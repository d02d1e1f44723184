# cmake -DCOMPILER=… -DROOT=… -DSNIPPET=… -P run.cmake: see CMakeLists.txt.

# By hand, not file(STRINGS): brackets and semicolons in the sentence stay as they are.
file(READ ${SNIPPET} text)
if(NOT text MATCHES "^// expect: ([^\n]+)\n")
  message(FATAL_ERROR "${SNIPPET} must begin with the line '// expect: <part of the first error line>'")
endif()
set(expected "${CMAKE_MATCH_1}")

set(ENV{LC_ALL} C.UTF-8)
execute_process(
  COMMAND ${COMPILER} -std=c++20 -fsyntax-only -fdiagnostics-color=never -I ${ROOT}/include -I ${ROOT} ${SNIPPET}
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)

if(expected STREQUAL "compiles")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "this snippet should compile, but:\n${output}")
  endif()
  return()
endif()
if(status EQUAL 0)
  message(FATAL_ERROR "this snippet compiles; it should fail with: ${expected}")
endif()
if(NOT output MATCHES "error: ([^\n]*)")
  message(FATAL_ERROR "the compiler fails without an error line:\n${output}")
endif()
set(first "${CMAKE_MATCH_1}")
string(FIND "${first}" "${expected}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "the first error should contain\n  ${expected}\nbut is\n  ${first}\nin\n${output}")
endif()
