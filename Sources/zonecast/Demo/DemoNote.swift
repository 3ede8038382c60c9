/// What the demo's clients write: a line of text and a tick.
struct DemoNote: Hashable, Sendable {
    var title: String
    var isDone = false

    /// Three versions into one: what only one side changed is that side's, what both changed is mine.
    ///
    /// The SDK reference calls this policy *merge by property, object trump*.
    static func merge(base: DemoNote?, mine: DemoNote, theirs: DemoNote) -> DemoNote {
        guard let base else { return mine }
        return DemoNote(
            title: mine.title == base.title ? theirs.title : mine.title,
            isDone: mine.isDone == base.isDone ? theirs.isDone : mine.isDone
        )
    }
}
