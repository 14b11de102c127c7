// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev Money of one account in one storage slot: what is locked can be seen without a second write.
/// `free + locked` never passes MAX_BALANCE: whoever credits checks it, and the other operations do not raise the sum. So each
/// can work on the word as a whole, without a carry from one field into the next.
///
/// bits      field
/// 0..111    free
/// 112..223  locked
/// 224..255  number             of the account among those that have posted a job, from 1; 0 = has not
type Account is uint256;

using {free, locked, number, total, withNumber, credit, debit, lock, settle} for Account global;

uint256 constant MAX_BALANCE = type(uint112).max;

uint256 constant LOCKED_SHIFT = 112;
uint256 constant NUMBER_SHIFT = 224;

function free(Account account) pure returns (uint112) {
    return uint112(Account.unwrap(account));
}

function locked(Account account) pure returns (uint112) {
    return uint112(Account.unwrap(account) >> LOCKED_SHIFT);
}

function number(Account account) pure returns (uint32) {
    return uint32(Account.unwrap(account) >> NUMBER_SHIFT);
}

/// @dev For an account that has no number.
function withNumber(Account account, uint32 number_) pure returns (Account) {
    return Account.wrap(Account.unwrap(account) | (uint256(number_) << NUMBER_SHIFT));
}

function total(Account account) pure returns (uint256) {
    unchecked {
        return uint256(free(account)) + locked(account);
    }
}

/// @dev The caller has compared: `amount + total <= MAX_BALANCE`.
function credit(Account account, uint256 amount) pure returns (Account) {
    unchecked {
        return Account.wrap(Account.unwrap(account) + amount);
    }
}

/// @dev The caller has compared: `amount <= free`.
function debit(Account account, uint256 amount) pure returns (Account) {
    unchecked {
        return Account.wrap(Account.unwrap(account) - amount);
    }
}

/// @dev free -> locked. The caller has compared: `amount <= free`.
function lock(Account account, uint96 amount) pure returns (Account) {
    unchecked {
        return Account.wrap(Account.unwrap(account) - amount + (uint256(amount) << LOCKED_SHIFT));
    }
}

/// @dev `amount`, which is locked, leaves it; `refund` of it comes back to free.
function settle(Account account, uint96 amount, uint256 refund) pure returns (Account) {
    unchecked {
        return Account.wrap(Account.unwrap(account) - (uint256(amount) << LOCKED_SHIFT) + refund);
    }
}
