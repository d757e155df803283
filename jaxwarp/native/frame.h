// XLA's FFI call frame, read through its C interface.
//
// The C++ binding layer of XLA is not used: its names differ between jaxlib releases, it decodes what a launch does not
// need, and it costs seconds to compile. The C structs used here are the same from API 0.2 (jaxlib 0.9) on.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>

#include "ordering.h"
#include "xla/ffi/api/c_api.h"

#define JAXWARP_EXPORT extern "C" __attribute__((visibility("default")))

namespace jaxwarp {

using Frame = XLA_FFI_CallFrame;

// Why a launch is refused. Thrown inside a handler, turned into an XLA error at its boundary (see Guard).
class Refusal : public std::runtime_error {
 public:
  Refusal(XLA_FFI_Error_Code code, const std::string& why) : std::runtime_error(why), code_(code) {}
  XLA_FFI_Error_Code code() const { return code_; }

 private:
  XLA_FFI_Error_Code code_;
};

[[noreturn]] inline void RefuseInvalid(const std::string& why) {
  throw Refusal(XLA_FFI_Error_Code_INVALID_ARGUMENT, why);
}

inline XLA_FFI_Error* MakeError(const XLA_FFI_Api* api, XLA_FFI_Error_Code code, const std::string& subject,
                                const char* why) {
  const std::string message = "jaxwarp: " + (subject.empty() ? "" : subject + ": ") + why;
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message.c_str();
  args.errc = code;
  return api->XLA_FFI_Error_Create(&args);
}

// Runs `body(subject)`; `subject` is what it learns on the way about who speaks, for the message of whatever it throws.
template <typename Body>
XLA_FFI_Error* Guard(const XLA_FFI_Api* api, Body body) {
  std::string subject;
  try {
    body(subject);
    return nullptr;
  } catch (const Refusal& refusal) {
    return MakeError(api, refusal.code(), subject, refusal.what());
  } catch (const std::exception& error) {
    return MakeError(api, XLA_FFI_Error_Code_INTERNAL, subject, error.what());
  }
}

// Turns an XLA error into a Refusal. API 0.5 renamed the function that reads an error's text, so the text is not read.
inline void Require(const XLA_FFI_Api* api, XLA_FFI_Error* error, const char* what) {
  if (error == nullptr) return;
  XLA_FFI_Error_Destroy_Args args{};
  args.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  args.error = error;
  api->XLA_FFI_Error_Destroy(&args);
  throw Refusal(XLA_FFI_Error_Code_INTERNAL, std::string("XLA did not provide ") + what);
}

// XLA calls a handler once when it is registered, to ask what it is. That call carries XLA's function table, so the state
// type is registered there: registered from Python, it could come after the handler, and the CPU backend would not start.
template <typename State>
XLA_FFI_TypeId* RegisteredTypeId(const XLA_FFI_Api* api) {
  static XLA_FFI_TypeId id{};
  static XLA_FFI_TypeInfo info{};
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  if (id.type_id != 0) return &id;
  info.struct_size = XLA_FFI_TypeInfo_STRUCT_SIZE;
  info.deleter = [](void* state) {
    TakeOver(state);
    delete static_cast<State*>(state);
  };
  const std::string_view name = State::kTypeName;
  XLA_FFI_Type_Register_Args args{};
  args.struct_size = XLA_FFI_Type_Register_Args_STRUCT_SIZE;
  args.name = XLA_FFI_ByteSpan{name.data(), name.size()};
  args.type_id = &id;
  args.type_info = &info;
  Require(api, api->XLA_FFI_Type_Register(&args), "a state type");
  State::id = id;
  return &id;
}

inline bool IsMetadataQuery(const Frame* frame) {
  return frame->extension_start != nullptr && frame->extension_start->type == XLA_FFI_Extension_Metadata;
}

inline void AnswerMetadata(const Frame* frame, XLA_FFI_TypeId state, XLA_FFI_Handler_Traits traits) {
  XLA_FFI_Metadata* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start)->metadata;
  metadata->api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR};
  metadata->traits = traits;
  metadata->state_type_id = state;
}

// The metadata answer of a handler that makes a State, and of one that only uses it.
template <typename State>
XLA_FFI_Error* DescribeStateMaker(const Frame* frame) {
  return Guard(frame->api, [&](std::string&) { AnswerMetadata(frame, *RegisteredTypeId<State>(frame->api), 0); });
}

inline XLA_FFI_Error* DescribeStateUser(const Frame* frame, XLA_FFI_Handler_Traits traits = 0) {
  AnswerMetadata(frame, XLA_FFI_UNKNOWN_TYPE_ID, traits);
  return nullptr;
}

// Hands `state` to the executable, which owns it from then on. The zeroed `args` also say "made at instantiation" to
// headers from API 0.3 on, where the stage is part of these structs.
template <typename State>
void SetState(const Frame* frame, std::unique_ptr<State> state) {
  XLA_FFI_State_Set_Args args{};
  args.struct_size = XLA_FFI_State_Set_Args_STRUCT_SIZE;
  args.ctx = frame->ctx;
  args.type_id = RegisteredTypeId<State>(frame->api);
  args.state = state.get();
  HandOver(args.state);
  Require(frame->api, frame->api->XLA_FFI_State_Set(&args), "a place for the launch's state");
  state.release();
}

template <typename State>
Held<State> GetState(const Frame* frame) {
  XLA_FFI_State_Get_Args args{};
  args.struct_size = XLA_FFI_State_Get_Args_STRUCT_SIZE;
  args.ctx = frame->ctx;
  args.type_id = &State::id;
  Require(frame->api, frame->api->XLA_FFI_State_Get(&args), "the launch's state");
  return Held<State>(frame, static_cast<State*>(args.state));
}

}  // namespace jaxwarp
