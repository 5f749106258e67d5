"""protoc_library: C++ messages of .proto files, with the system's protoc, no services."""

def protoc_library(name, srcs, **kwargs):
    """A cc_library of NAME.pb.h for each NAME.proto.

    Args:
      name: of the library.
      srcs: .proto files of this package; they import each other by path from the workspace's root.
      **kwargs: of cc_library.
    """
    stems = [s[:-len(".proto")] for s in srcs]
    native.genrule(
        name = name + "_gen",
        srcs = srcs,
        outs = [s + ".pb.h" for s in stems] + [s + ".pb.cc" for s in stems],
        cmd = "/usr/bin/protoc -I. --cpp_out=$(GENDIR) $(SRCS)",
    )
    native.cc_library(
        name = name,
        srcs = [s + ".pb.cc" for s in stems],
        hdrs = [s + ".pb.h" for s in stems],
        copts = ["-w"],  # generated
        deps = ["//third_party:protobuf"],
        **kwargs
    )
