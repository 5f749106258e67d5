"""Our C++ rules: the native ones with warnings as errors."""

_COPTS = [
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wnon-virtual-dtor",
    "-Wimplicit-fallthrough",
    "-Wno-unused-parameter",
    "-Wno-missing-field-initializers",
    "-Werror",
]

def stria_library(name, copts = [], **kwargs):
    native.cc_library(name = name, copts = _COPTS + copts, **kwargs)

def stria_binary(name, copts = [], linkopts = [], **kwargs):
    native.cc_binary(
        name = name,
        copts = _COPTS + copts,
        linkopts = linkopts + ["-Wl,--build-id=sha1"],  # by which packages keep its symbols
        **kwargs
    )

def stria_test(name, copts = [], deps = [], size = "small", **kwargs):
    native.cc_test(
        name = name,
        size = size,
        copts = _COPTS + copts,
        deps = deps + ["//third_party:gtest_main"],
        **kwargs
    )
