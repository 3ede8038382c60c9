package import Records

/// A person as a user of one container, and what they have made visible to other users.
package struct UserProfile: Hashable, Sendable {
    package var user: UserID
    package var account: Account
    /// Whether other users of the container can find the person and see their name; off until the person turns it on.
    ///
    /// See Wire.md, "User operations", and CloudKit's `userDiscoverability` permission.
    package var isDiscoverable: Bool

    package init(user: UserID, account: Account, isDiscoverable: Bool) {
        self.user = user
        self.account = account
        self.isDiscoverable = isDiscoverable
    }

    /// The name that other users see; empty unless the person is discoverable.
    package var shownName: PersonName { isDiscoverable ? account.name : PersonName() }
}

/// A key for finding a user of a container.
package enum UserLookup: Hashable, Sendable {
    /// As in `AccountRules.canonicalEmail`.
    case email(String)
    /// As in `AccountRules.canonicalPhone`.
    case phone(String)
    case user(UserID)
}

/// Filters the result of user lookups by discoverability.
///
/// A user who does not exist and one who is not discoverable are both left out, so that they cannot be told apart.
/// Callers always find themselves. See Wire.md, "User operations".
package enum Discovery {
    /// Returns the profiles found, in the order of `lookups`, with the index of the lookup.
    package static func find(
        _ lookups: [UserLookup?],
        among profiles: [UserLookup: UserProfile],
        by caller: UserID
    ) -> [(index: Int, profile: UserProfile)] {
        lookups.enumerated().compactMap { index, lookup in
            guard let lookup, let profile = profiles[lookup], profile.isDiscoverable || profile.user == caller,
                !profile.account.isDisabled
            else { return nil }
            return (index, profile)
        }
    }
}
