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

# With --config=unity the sources of a library are compiled as one: headers are read once, and what several sources instantiate is
# optimized once. From nothing that is less than half of the work; after a change of one source it is more.
def stria_library(name, srcs = [], copts = [], textual_hdrs = [], **kwargs):
    units = [source for source in srcs if source.endswith(".cc") and not source.startswith((":", "/"))]
    if len(units) > 1:
        unity = name + "_unity.cc"
        lines = ["#include \\\"%s/%s\\\"" % (native.package_name(), unit) for unit in units]
        native.genrule(
            name = name + "_unity",
            outs = [unity],
            cmd = "printf '%s\\n' " + " ".join(["\"%s\"" % line for line in lines]) + " > $@",
            visibility = ["//visibility:private"],
        )
        srcs = select({
            "//third_party:unity": [unity] + [source for source in srcs if source not in units],
            "//conditions:default": srcs,
        })
        textual_hdrs = textual_hdrs + select({"//third_party:unity": units, "//conditions:default": []})
    native.cc_library(name = name, srcs = srcs, copts = _COPTS + copts, textual_hdrs = textual_hdrs, **kwargs)

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
