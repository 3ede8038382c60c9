/// The application's decisions when users sign in and out.
///
/// Each user's mirrored data are in files of their own, and so are the data written while no user is signed in. The
/// closures are called before anything is sent or fetched for the new user. They must not call the container, which
/// waits for them. See FromCoreData.md, "Users come and go".
public struct AccountPolicy: Sendable {
    /// What happens to a user's files when the user signs out.
    public enum SignOutChoice: Hashable, Sendable {
        /// They stay closed, with their unsent changes, until the user signs in again.
        case keepClosed
        /// They are deleted with their unsent changes.
        case delete
        /// Their objects are copied to the files used without a user, where they can be read and changed.
        ///
        /// The user's own files stay closed.
        case keepLocal
    }

    /// What happens to objects without a user when a user signs in.
    public enum SignInChoice: Hashable, Sendable {
        /// They stay in the files used without a user; `adoptLocalData` takes them over later.
        case leave
        /// They become the user's and are sent.
        case adopt
        /// Like `adopt`; then duplicates of the user's objects are removed, as by `deduplicate`.
        ///
        /// The value maps entities to the properties that duplicates have in common. Done after everything on the
        /// relay was fetched.
        case merge(by: [String: [String]])
    }

    /// A user who has signed out.
    public struct SignOut: Hashable, Sendable {
        /// The user's record name.
        public var user: String
        /// The number of objects with unsent changes, by store; stores without any are left out.
        public var unsent: [StoreID: Int]
    }

    /// A user who has signed in while there are objects without a user.
    public struct SignIn: Hashable, Sendable {
        /// The user's record name.
        public var user: String
        /// The number of objects without a user, by store.
        public var localObjects: [StoreID: Int]
    }

    /// Called when a user has signed out.
    public var signedOut: @Sendable (SignOut) async -> SignOutChoice
    /// Called when a user has signed in and there are objects without a user.
    public var signedIn: @Sendable (SignIn) async -> SignInChoice

    /// Creates a policy; by default files stay closed, and objects without a user stay until `adoptLocalData` is
    /// called.
    public init(
        signedOut: @escaping @Sendable (SignOut) async -> SignOutChoice = { _ in .keepClosed },
        signedIn: @escaping @Sendable (SignIn) async -> SignInChoice = { _ in .leave }
    ) {
        self.signedOut = signedOut
        self.signedIn = signedIn
    }
}
