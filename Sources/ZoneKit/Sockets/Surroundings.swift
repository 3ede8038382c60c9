/// The interface between a simulated test environment and the engines, mirrors and pollers that run in it.
package protocol Surroundings: Sendable {
    /// The executor of their tasks.
    var tasks: any TaskExecutor { get }

    /// Registers one of them; the reference is weak.
    func join(_ one: any Settling)

    /// Reports that the app's own code has started, perhaps on another executor, or has returned.
    func application(isAtWork: Bool)

    /// A counter that increases with every write that other devices have to learn of, in private and shared databases
    /// or in the public one.
    func newsCount(ofPublic: Bool) -> UInt64
}

/// An object that works in the background and reports whether it has work left.
package protocol Settling: AnyObject, Sendable {
    /// Returns descriptions of the remaining work for the person who waits for it.
    ///
    /// An empty array means there is none.
    func unsettled() async -> [String]
}
