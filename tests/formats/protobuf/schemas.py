"""Schemas that several tests read by."""

from __future__ import annotations

ALL = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/type/date.proto";
enum State { NEW = 0; PAID = 1; LOST = -1; }
message Item { string sku = 1; int64 n = 2; repeated string tags = 3; message Deep { bool ok = 1; } Deep deep = 4; }
message All {
  double a_double = 1; float a_float = 2; int32 an_int32 = 3; int64 an_int64 = 4; uint32 a_uint32 = 5; uint64 a_uint64 = 6;
  sint32 a_sint32 = 7; sint64 a_sint64 = 8; fixed32 a_fixed32 = 9; fixed64 a_fixed64 = 10; sfixed32 a_sfixed32 = 11;
  sfixed64 a_sfixed64 = 12; bool a_bool = 13; string a_string = 14; bytes a_bytes = 15; State state = 16;
  optional int32 maybe_int = 20; optional string maybe_text = 21; optional State maybe_state = 22; optional bool maybe_bool = 23;
  repeated int32 ints = 30; repeated sint64 wide = 31 [packed = false]; repeated string texts = 32; repeated State states = 33;
  repeated Item items = 34; repeated double doubles = 35; repeated fixed64 fixed = 36;
  map<string, int64> counts = 40; map<int32, string> names = 41; map<bool, Item> by_bool = 42; map<string, State> by_state = 43;
  oneof choice { string text = 50; int64 number = 51; Item item = 52; }
  Item one = 60;
  google.protobuf.Timestamp at = 70; google.protobuf.Duration took = 71; google.type.Date day = 72;
  google.protobuf.Int32Value wrapped_int = 80; google.protobuf.StringValue wrapped_text = 81; google.protobuf.BoolValue wrapped_bool = 82;
  google.protobuf.UInt64Value wrapped_wide = 83; google.protobuf.DoubleValue wrapped_double = 84; google.protobuf.BytesValue wrapped_bytes = 85;
  repeated google.protobuf.Timestamp times = 90; repeated google.protobuf.Int64Value wraps = 91; map<string, google.protobuf.Timestamp> at_of = 92;
}
"""

TWO = """
syntax = "proto2";
package shop;
enum State { NEW = 1; PAID = 2; }
message Two {
  required int64 id = 1; optional string note = 2; optional int32 n = 3 [default = -7]; optional State state = 4;
  optional State known = 5 [default = PAID]; repeated int32 loose = 6; repeated int32 tight = 7 [packed = true];
  optional bool ok = 8 [default = true]; optional string text = 9 [default = "a\\"b"]; optional bytes raw = 10 [default = "\\001a"];
  optional double x = 11 [default = 1.5]; optional uint64 wide = 12 [default = 18446744073709551615];
  message In { optional int32 a = 1; optional int32 b = 2; } optional In in = 13;
  map<string, In> of = 14;
  extensions 100 to 200;
}
extend Two { optional int32 more = 100; }
"""
