/// What a container asks its program when users come and go.
///
/// Each user's mirrored data are in files of their own, and so are those of nobody: what is written while nobody is signed
/// in. The questions are asked before anything is sent or fetched for the new user. The answers must not call the container,
/// which waits for them. See FromCoreData.md, "Users come and go".
public struct AccountPolicy: Sendable {
    /// What becomes of a user's files when they sign out.
    public enum SignOutChoice: Hashable, Sendable {
        /// They stay closed until the user signs in again, with what was not sent.
        case keepClosed
        /// They are deleted, with what was not sent.
        case delete
        /// What they hold is copied to nobody's files, where it can be read and changed; the user's own stay closed.
        case keepLocal
    }

    /// What becomes of nobody's objects when a user signs in.
    public enum SignInChoice: Hashable, Sendable {
        /// They stay in nobody's files; `adoptLocalData` takes them over later.
        case leave
        /// They become the user's, and are sent.
        case adopt
        /// The same; then of those that agree in some properties with others of the user's one stays, as by `deduplicate`.
        ///
        /// By entity the names of the properties. Done once all that the relay has is here.
        case merge(by: [String: [String]])
    }

    /// A user who has signed out.
    public struct SignOut: Hashable, Sendable {
        /// The user's record name.
        public var user: String
        /// How many objects have changes that were not sent, by store; stores without any are left out.
        public var unsent: [StoreID: Int]
    }

    /// A user who has signed in where nobody's files hold objects.
    public struct SignIn: Hashable, Sendable {
        /// The user's record name.
        public var user: String
        /// How many of nobody's objects there are, by store.
        public var localObjects: [StoreID: Int]
    }

    /// Decides when a user has signed out.
    public var signedOut: @Sendable (SignOut) async -> SignOutChoice
    /// Decides when a user has signed in and there is data of nobody's.
    public var signedIn: @Sendable (SignIn) async -> SignInChoice

    /// Says what to do; left out, files are kept closed, and nobody's data left alone until `adoptLocalData` is called.
    public init(
        signedOut: @escaping @Sendable (SignOut) async -> SignOutChoice = { _ in .keepClosed },
        signedIn: @escaping @Sendable (SignIn) async -> SignInChoice = { _ in .leave }
    ) {
        self.signedOut = signedOut
        self.signedIn = signedIn
    }
}
