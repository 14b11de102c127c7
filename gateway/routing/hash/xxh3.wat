;; XXH3-64 with the default secret and seed 0. `node scripts/wasm.ts` writes xxh3-module.ts from this text.
;;
;; Memory: the secret at 0, the first lanes at 192, the working lanes at 256, the fields of a batch at 512 (48 bytes each, 64 at
;; most), their units at 3584 (f64 each), the message from 4096 on.
(module
  (memory (export "memory") 1)
  (data (i32.const 0)
    "\b8\fe\6c\39\23\a4\4b\be\7c\01\81\2c\f7\21\ad\1c\de\d4\6d\e9\83\90\97\db\72\40\a4\a4\b7\b3\67\1f"
    "\cb\79\e6\4e\cc\c0\e5\78\82\5a\d0\7d\cc\ff\72\21\b8\08\46\74\f7\43\24\8e\e0\35\90\e6\81\3a\26\4c"
    "\3c\28\52\bb\91\c3\00\cb\88\d0\65\8b\1b\53\2e\a3\71\64\48\97\a2\0d\f9\4e\38\19\ef\46\a9\de\ac\d8\a8"
    "\fa\76\3f\e3\9c\34\3f\f9\dc\bb\c7\c7\0b\4f\1d\8a\51\e0\4b\cd\b4\59\31\c8\9f\7e\c9\d9\78\73\64\ea"
    "\c5\ac\83\34\d3\eb\c3\c5\81\a0\ff\fa\13\63\eb\17\0d\dd\51\b7\f0\da\49\d3\16\55\26\29\d4\68\9e\2b"
    "\16\be\58\7d\47\a1\fc\8f\f8\b8\d1\7a\d0\31\ce\45\cb\3a\8f\95\16\04\28\af\d7\fb\ca\bb\4b\40\7e")
  ;; P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1
  (data (i32.const 192)
    "\3d\ae\b2\c2\00\00\00\00\87\ca\eb\85\b1\79\37\9e\4f\eb\d4\27\3d\ae\b2\c2\f9\79\37\9e\b1\67\56\16"
    "\63\ae\b2\c2\77\ca\eb\85\77\ca\eb\85\00\00\00\00\c5\67\56\16\2f\eb\d4\27\b1\79\37\9e\00\00\00\00")

  ;; Both halves of the 128-bit product of a and b, folded by exclusive or.
  (func $fold (param $a i64) (param $b i64) (result i64)
    (local $aLow i64) (local $aHigh i64) (local $bLow i64) (local $bHigh i64) (local $middle i64) (local $other i64)
    (local.set $aLow (i64.and (local.get $a) (i64.const 0xffffffff)))
    (local.set $aHigh (i64.shr_u (local.get $a) (i64.const 32)))
    (local.set $bLow (i64.and (local.get $b) (i64.const 0xffffffff)))
    (local.set $bHigh (i64.shr_u (local.get $b) (i64.const 32)))
    (local.set $middle
      (i64.add
        (i64.mul (local.get $aHigh) (local.get $bLow))
        (i64.shr_u (i64.mul (local.get $aLow) (local.get $bLow)) (i64.const 32))))
    (local.set $other
      (i64.add
        (i64.mul (local.get $aLow) (local.get $bHigh))
        (i64.and (local.get $middle) (i64.const 0xffffffff))))
    (i64.xor
      (i64.mul (local.get $a) (local.get $b))
      (i64.add
        (i64.mul (local.get $aHigh) (local.get $bHigh))
        (i64.add
          (i64.shr_u (local.get $middle) (i64.const 32))
          (i64.shr_u (local.get $other) (i64.const 32))))))

  ;; The fold of 16 bytes under 16 bytes of the secret.
  (func $mix (param $at i32) (param $secret i32) (result i64)
    (call $fold
      (i64.xor (i64.load (local.get $at)) (i64.load (local.get $secret)))
      (i64.xor (i64.load offset=8 (local.get $at)) (i64.load offset=8 (local.get $secret)))))

  ;; value ^ value >> by
  (func $xorShift (param $value i64) (param $by i64) (result i64)
    (i64.xor (local.get $value) (i64.shr_u (local.get $value) (local.get $by))))

  ;; Last mixing of the long forms.
  (func $avalanche (param $value i64) (result i64)
    (call $xorShift
      (i64.mul (call $xorShift (local.get $value) (i64.const 37)) (i64.const 0x165667919e3779f9))
      (i64.const 32)))

  ;; Last mixing of XXH64, used for the shortest inputs.
  (func $avalancheOf64 (param $value i64) (result i64)
    (call $xorShift
      (i64.mul
        (call $xorShift
          (i64.mul (call $xorShift (local.get $value) (i64.const 33)) (i64.const 0xc2b2ae3d27d4eb4f))
          (i64.const 29))
        (i64.const 0x165667b19e3779f9))
      (i64.const 32)))

  ;; Where the sums over 16-byte blocks begin.
  (func $start (param $length i32) (result i64)
    (i64.mul (i64.extend_i32_u (local.get $length)) (i64.const 0x9e3779b185ebca87)))

  (func $swapBytes (param $value i64) (result i64)
    (local.set $value
      (i64.or
        (i64.shl (i64.and (local.get $value) (i64.const 0x00ff00ff00ff00ff)) (i64.const 8))
        (i64.and (i64.shr_u (local.get $value) (i64.const 8)) (i64.const 0x00ff00ff00ff00ff))))
    (local.set $value
      (i64.or
        (i64.shl (i64.and (local.get $value) (i64.const 0x0000ffff0000ffff)) (i64.const 16))
        (i64.and (i64.shr_u (local.get $value) (i64.const 16)) (i64.const 0x0000ffff0000ffff))))
    (i64.rotl (local.get $value) (i64.const 32)))

  (func $hash1To3 (param $length i32) (result i64)
    (call $avalancheOf64
      (i64.extend_i32_u
        (i32.xor
          (i32.or
            (i32.or
              (i32.shl (i32.load8_u (i32.const 4096)) (i32.const 16))
              (i32.shl
                (i32.load8_u (i32.add (i32.const 4096) (i32.shr_u (local.get $length) (i32.const 1))))
                (i32.const 24)))
            (i32.or
              (i32.load8_u (i32.add (i32.const 4095) (local.get $length)))
              (i32.shl (local.get $length) (i32.const 8))))
          (i32.xor (i32.load (i32.const 0)) (i32.load (i32.const 4)))))))

  (func $hash4To8 (param $length i32) (result i64)
    (local $value i64)
    (local.set $value
      (i64.xor
        (i64.add
          (i64.load32_u (i32.add (i32.const 4092) (local.get $length)))
          (i64.shl (i64.load32_u (i32.const 4096)) (i64.const 32)))
        (i64.xor (i64.load (i32.const 8)) (i64.load (i32.const 16)))))
    (local.set $value
      (i64.mul
        (i64.xor
          (local.get $value)
          (i64.xor (i64.rotl (local.get $value) (i64.const 49)) (i64.rotl (local.get $value) (i64.const 24))))
        (i64.const 0x9fb21c651e98df25)))
    (call $xorShift
      (i64.mul
        (i64.xor
          (local.get $value)
          (i64.add (i64.shr_u (local.get $value) (i64.const 35)) (i64.extend_i32_u (local.get $length))))
        (i64.const 0x9fb21c651e98df25))
      (i64.const 28)))

  (func $hash9To16 (param $length i32) (result i64)
    (local $first i64) (local $last i64)
    (local.set $first
      (i64.xor (i64.load (i32.const 4096)) (i64.xor (i64.load (i32.const 24)) (i64.load (i32.const 32)))))
    (local.set $last
      (i64.xor
        (i64.load (i32.add (i32.const 4088) (local.get $length)))
        (i64.xor (i64.load (i32.const 40)) (i64.load (i32.const 48)))))
    (call $avalanche
      (i64.add
        (i64.add (i64.extend_i32_u (local.get $length)) (call $swapBytes (local.get $first)))
        (i64.add (local.get $last) (call $fold (local.get $first) (local.get $last))))))

  (func $hash17To128 (param $length i32) (result i64)
    (local $sum i64) (local $pair i32)
    (local.set $sum (call $start (local.get $length)))
    (local.set $pair (i32.shr_u (i32.sub (local.get $length) (i32.const 1)) (i32.const 5)))
    (loop $pairs
      (local.set $sum
        (i64.add
          (local.get $sum)
          (i64.add
            (call $mix
              (i32.add (i32.const 4096) (i32.shl (local.get $pair) (i32.const 4)))
              (i32.shl (local.get $pair) (i32.const 5)))
            (call $mix
              (i32.sub
                (i32.add (i32.const 4080) (local.get $length))
                (i32.shl (local.get $pair) (i32.const 4)))
              (i32.add (i32.shl (local.get $pair) (i32.const 5)) (i32.const 16))))))
      (br_if $pairs
        (i32.ge_s (local.tee $pair (i32.sub (local.get $pair) (i32.const 1))) (i32.const 0))))
    (call $avalanche (local.get $sum)))

  (func $hash129To240 (param $length i32) (result i64)
    (local $sum i64) (local $round i32)
    (local.set $sum (call $start (local.get $length)))
    (loop $rounds
      (local.set $sum
        (i64.add
          (local.get $sum)
          (call $mix
            (i32.add (i32.const 4096) (i32.shl (local.get $round) (i32.const 4)))
            (i32.shl (local.get $round) (i32.const 4)))))
      (br_if $rounds
        (i32.lt_u (local.tee $round (i32.add (local.get $round) (i32.const 1))) (i32.const 8))))
    (local.set $sum (call $avalanche (local.get $sum)))
    (block $done
      (loop $rest
        (br_if $done (i32.ge_u (local.get $round) (i32.shr_u (local.get $length) (i32.const 4))))
        (local.set $sum
          (i64.add
            (local.get $sum)
            (call $mix
              (i32.add (i32.const 4096) (i32.shl (local.get $round) (i32.const 4)))
              (i32.sub (i32.shl (local.get $round) (i32.const 4)) (i32.const 125)))))
        (local.set $round (i32.add (local.get $round) (i32.const 1)))
        (br $rest)))
    (call $avalanche
      (i64.add (local.get $sum) (call $mix (i32.add (i32.const 4080) (local.get $length)) (i32.const 119)))))

  ;; Takes 64 bytes into the lanes, under 64 bytes of the secret.
  (func $accumulate (param $at i32) (param $secret i32)
    (local $lane i32) (local $value i64) (local $keyed i64)
    (loop $lanes
      (local.set $value (i64.load (i32.add (local.get $at) (local.get $lane))))
      (local.set $keyed
        (i64.xor (local.get $value) (i64.load (i32.add (local.get $secret) (local.get $lane)))))
      (i64.store offset=256
        (i32.xor (local.get $lane) (i32.const 8))
        (i64.add (i64.load offset=256 (i32.xor (local.get $lane) (i32.const 8))) (local.get $value)))
      (i64.store offset=256
        (local.get $lane)
        (i64.add
          (i64.load offset=256 (local.get $lane))
          (i64.mul
            (i64.and (local.get $keyed) (i64.const 0xffffffff))
            (i64.shr_u (local.get $keyed) (i64.const 32)))))
      (br_if $lanes
        (i32.lt_u (local.tee $lane (i32.add (local.get $lane) (i32.const 8))) (i32.const 64)))))

  ;; Mixes the lanes after a block of 16 stripes.
  (func $scramble
    (local $lane i32)
    (loop $lanes
      (i64.store offset=256
        (local.get $lane)
        (i64.mul
          (i64.xor
            (call $xorShift (i64.load offset=256 (local.get $lane)) (i64.const 47))
            (i64.load offset=128 (local.get $lane)))
          (i64.const 0x9e3779b1)))
      (br_if $lanes
        (i32.lt_u (local.tee $lane (i32.add (local.get $lane) (i32.const 8))) (i32.const 64)))))

  (func $hashLong (param $length i32) (result i64)
    (local $at i32) (local $lane i32) (local $sum i64)
    (loop $lanes
      (i64.store offset=256 (local.get $lane) (i64.load offset=192 (local.get $lane)))
      (br_if $lanes
        (i32.lt_u (local.tee $lane (i32.add (local.get $lane) (i32.const 8))) (i32.const 64))))
    ;; Stripes of 64 bytes that begin before the last byte's stripe ends; a block ends behind each sixteenth.
    (block $done
      (loop $stripes
        (br_if $done
          (i32.gt_u
            (i32.add (local.get $at) (i32.const 64))
            (i32.sub (local.get $length) (i32.const 1))))
        (call $accumulate
          (i32.add (i32.const 4096) (local.get $at))
          (i32.shr_u (i32.and (local.get $at) (i32.const 1023)) (i32.const 3)))
        (local.set $at (i32.add (local.get $at) (i32.const 64)))
        (if (i32.eqz (i32.and (local.get $at) (i32.const 1023))) (then (call $scramble)))
        (br $stripes)))
    (call $accumulate (i32.add (i32.const 4032) (local.get $length)) (i32.const 121))
    (local.set $sum (call $start (local.get $length)))
    (local.set $lane (i32.const 0))
    (loop $pairs
      (local.set $sum
        (i64.add
          (local.get $sum)
          (call $fold
            (i64.xor (i64.load offset=256 (local.get $lane)) (i64.load offset=11 (local.get $lane)))
            (i64.xor (i64.load offset=264 (local.get $lane)) (i64.load offset=19 (local.get $lane))))))
      (br_if $pairs
        (i32.lt_u (local.tee $lane (i32.add (local.get $lane) (i32.const 16))) (i32.const 64))))
    (call $avalanche (local.get $sum)))

  ;; The hash of the first bytes of the message.
  (func $hash (export "hash") (param $length i32) (result i64)
    (if (i32.gt_u (local.get $length) (i32.const 240)) (then (return (call $hashLong (local.get $length)))))
    (if (i32.gt_u (local.get $length) (i32.const 128)) (then (return (call $hash129To240 (local.get $length)))))
    (if (i32.gt_u (local.get $length) (i32.const 16)) (then (return (call $hash17To128 (local.get $length)))))
    (if (i32.gt_u (local.get $length) (i32.const 8)) (then (return (call $hash9To16 (local.get $length)))))
    (if (i32.gt_u (local.get $length) (i32.const 3)) (then (return (call $hash4To8 (local.get $length)))))
    (if (local.get $length) (then (return (call $hash1To3 (local.get $length)))))
    (call $avalancheOf64 (i64.xor (i64.load (i32.const 56)) (i64.load (i32.const 64)))))

  ;; The upper 32 bits of the hash.
  (func (export "high") (param $length i32) (result i32)
    (i32.wrap_i64 (i64.shr_u (call $hash (local.get $length)) (i64.const 32))))

  ;; ((hash >> 11) + 0.5) / 2^53
  (func $unit (export "unit") (param $length i32) (result f64)
    (f64.mul
      (f64.add (f64.convert_i64_u (i64.shr_u (call $hash (local.get $length)) (i64.const 11))) (f64.const 0.5))
      (f64.const 0x1p-53)))

  ;; The unit of the message's first bytes and each field behind them. A field is its length in 4 bytes and its text.
  (func (export "units") (param $prefix i32) (param $count i32)
    (local $field i32) (local $end i32) (local $into i32) (local $to i32)
    (local.set $field (i32.const 512))
    (local.set $end (i32.add (i32.const 512) (i32.mul (local.get $count) (i32.const 48))))
    (local.set $into (i32.const 3584))
    (local.set $to (i32.add (i32.const 4096) (local.get $prefix)))
    (block $done
      (loop $fields
        (br_if $done (i32.ge_u (local.get $field) (local.get $end)))
        (i64.store (local.get $to) (i64.load (local.get $field)))
        (i64.store offset=8 (local.get $to) (i64.load offset=8 (local.get $field)))
        (i64.store offset=16 (local.get $to) (i64.load offset=16 (local.get $field)))
        (i64.store offset=24 (local.get $to) (i64.load offset=24 (local.get $field)))
        (i64.store offset=32 (local.get $to) (i64.load offset=32 (local.get $field)))
        (i64.store offset=40 (local.get $to) (i64.load offset=40 (local.get $field)))
        (f64.store (local.get $into)
          (call $unit
            (i32.add (local.get $prefix) (i32.add (i32.load (local.get $field)) (i32.const 4)))))
        (local.set $field (i32.add (local.get $field) (i32.const 48)))
        (local.set $into (i32.add (local.get $into) (i32.const 8)))
        (br $fields)))))
