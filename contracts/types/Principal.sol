// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @dev The provider that an account acts for, in one storage slot. 0 = none.
///
/// bits      field
/// 0..159    owner
/// 160..191  providerId         number of registration, from 1
type Principal is uint256;

using {owner, providerId, exists} for Principal global;

/// @dev Acts for nobody.
Principal constant NO_PRINCIPAL = Principal.wrap(0);

uint256 constant PROVIDER_ID_SHIFT = 160;

function packPrincipal(address owner_, uint32 providerId_) pure returns (Principal) {
    return Principal.wrap((uint256(providerId_) << PROVIDER_ID_SHIFT) | uint160(owner_));
}

function owner(Principal principal) pure returns (address) {
    return address(uint160(Principal.unwrap(principal)));
}

function providerId(Principal principal) pure returns (uint32) {
    return uint32(Principal.unwrap(principal) >> PROVIDER_ID_SHIFT);
}

function exists(Principal principal) pure returns (bool) {
    return Principal.unwrap(principal) != 0;
}
