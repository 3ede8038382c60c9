extension String {
    /// The text as one word of a shell command, for messages: quoted if necessary.
    package var shellWord: String {
        let isPlain = { (sign: Character) in sign.isLetter || sign.isNumber || "@%+=:,./-_".contains(sign) }
        return !isEmpty && allSatisfy(isPlain) ? self : "'\(replacing("'", with: #"'\''"#))'"
    }
}
