/// The numbers that a write takes from its store.
package protocol NumberSource {
    /// Returns the next change number of the write's owner.
    func takeChangeNumber() -> UInt64

    /// The identity of a zone in a user's view: random, and another one whenever the view changes as a whole.
    var drawIdentity: () -> UInt64 { get }
}
