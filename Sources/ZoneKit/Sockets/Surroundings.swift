/// A test's world, as the parts of it see it that work by themselves: engines, mirrors, pollers.
package protocol Surroundings: Sendable {
    /// Where their tasks run.
    var tasks: any TaskExecutor { get }

    /// Makes one of them known, weakly.
    func join(_ one: any Settling)

    /// The application's own code is at work, perhaps on another executor, or has come back.
    func application(isAtWork: Bool)

    /// Grows whenever something was written that others have to hear of: in private and shared databases, or in the public.
    func newsCount(ofPublic: Bool) -> UInt64
}

/// Whoever works by itself, and can tell whether there is something left to do.
package protocol Settling: AnyObject, Sendable {
    /// What is still to be done, in words for the person who waits for it; empty: nothing.
    func unsettled() async -> [String]
}
