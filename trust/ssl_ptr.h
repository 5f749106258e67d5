// Owners of OpenSSL's objects, and what it says went wrong. For .cc files.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>

#include "common/error.h"

namespace stria {

template <auto Free>
struct SslDeleter {
  template <class T>
  void operator()(T* p) const {
    Free(p);
  }
};
using BioPtr = std::unique_ptr<BIO, SslDeleter<BIO_free_all>>;
using PkeyPtr = std::unique_ptr<EVP_PKEY, SslDeleter<EVP_PKEY_free>>;
using X509Ptr = std::unique_ptr<X509, SslDeleter<X509_free>>;
using X509ReqPtr = std::unique_ptr<X509_REQ, SslDeleter<X509_REQ_free>>;
using CipherCtxPtr = std::unique_ptr<EVP_CIPHER_CTX, SslDeleter<EVP_CIPHER_CTX_free>>;
using MdCtxPtr = std::unique_ptr<EVP_MD_CTX, SslDeleter<EVP_MD_CTX_free>>;

// The first of what this thread's calls have left, as OpenSSL words it; empties the list.
inline std::string TakeSslReason() {
  const unsigned long code = ERR_get_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "OpenSSL does not say why" : reason;
}
inline Error SslError(const std::string& what) { return Error(FsError::kIo, what + ": " + TakeSslReason()); }

inline BioPtr ReadingBio(std::string_view bytes) {
  BioPtr bio(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
  CHECK(bio != nullptr, "out of memory");
  return bio;
}
inline BioPtr WritingBio() {
  BioPtr bio(BIO_new(BIO_s_mem()));
  CHECK(bio != nullptr, "out of memory");
  return bio;
}
inline std::string TakeBytes(BIO* bio) {
  char* data = nullptr;
  const long n = BIO_get_mem_data(bio, &data);
  return n > 0 ? std::string(data, static_cast<size_t>(n)) : std::string();
}

}  // namespace stria
