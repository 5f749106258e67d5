"""The native Java rules under the names that @rules_java gives them (Bazel loads them; we do not)."""

java_library = native.java_library
java_binary = native.java_binary
java_import = native.java_import
java_toolchain = native.java_toolchain
java_runtime = native.java_runtime
