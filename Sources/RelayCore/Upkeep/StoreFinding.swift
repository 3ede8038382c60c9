/// The result of one check of a store that other programs run, such as a database server with its standbys.
package struct StoreFinding: Hashable, Sendable {
    package enum Grade: Sendable {
        /// The check passed.
        case good
        /// It works; something could be better.
        case advice
        /// Something does not work, or data can be lost.
        case problem
    }

    /// The name of the check, in one to three words.
    package var check: String
    package var grade: Grade
    /// The result, in one sentence.
    package var found: String
    /// The suggested step; `nil` if there is nothing to do.
    package var next: String?

    package init(_ check: String, _ grade: Grade, _ found: String, next: String? = nil) {
        self.check = check
        self.grade = grade
        self.found = found
        self.next = next
    }
}
