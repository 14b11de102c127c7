// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev Money of one account in one storage slot: what is locked can be seen without a second write.
///
/// bits      field
/// 0..127    free
/// 128..255  locked
type Balance is uint256;

using {free, locked, credit, debit, lock, settle} for Balance global;

uint256 constant LOCKED_SHIFT = 128;

function free(Balance balance) pure returns (uint128) {
    return uint128(Balance.unwrap(balance));
}

function locked(Balance balance) pure returns (uint128) {
    return uint128(Balance.unwrap(balance) >> LOCKED_SHIFT);
}

function credit(Balance balance, uint128 amount) pure returns (Balance) {
    return _pack(free(balance) + amount, locked(balance));
}

function debit(Balance balance, uint128 amount) pure returns (Balance) {
    return _pack(free(balance) - amount, locked(balance));
}

/// @dev free -> locked.
function lock(Balance balance, uint128 amount) pure returns (Balance) {
    return _pack(free(balance) - amount, locked(balance) + amount);
}

/// @dev `amount` leaves locked, `refund` of it comes back to free.
function settle(Balance balance, uint128 amount, uint128 refund) pure returns (Balance) {
    return _pack(free(balance) + refund, locked(balance) - amount);
}

function _pack(uint128 free_, uint128 locked_) pure returns (Balance) {
    return Balance.wrap((uint256(locked_) << LOCKED_SHIFT) | free_);
}
