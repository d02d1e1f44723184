# cmake --install: the library, its headers and what find_package(tessera) reads.
# The headers keep their folders below include/tessera-<version>, so that <tessera/dsl.hpp> and the paths
# inside the headers (dsl/…, runtime/…, kernels/…) are found there and collide with nobody's.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(TESSERA_HEADERS ${CMAKE_INSTALL_INCLUDEDIR}/tessera-${PROJECT_VERSION})
set(TESSERA_PACKAGE ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)

install(TARGETS tessera EXPORT tesseraTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
target_include_directories(tessera INTERFACE $<INSTALL_INTERFACE:${TESSERA_HEADERS}>)
install(DIRECTORY dsl runtime kernels modeling DESTINATION ${TESSERA_HEADERS} FILES_MATCHING PATTERN "*.hpp")
install(DIRECTORY include/tessera DESTINATION ${TESSERA_HEADERS} FILES_MATCHING PATTERN "*.hpp")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tessera)

install(EXPORT tesseraTargets NAMESPACE tessera:: DESTINATION ${TESSERA_PACKAGE})
configure_package_config_file(cmake/tesseraConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/tesseraConfig.cmake
  INSTALL_DESTINATION ${TESSERA_PACKAGE})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/tesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tesseraConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/tesseraConfigVersion.cmake
  DESTINATION ${TESSERA_PACKAGE})
