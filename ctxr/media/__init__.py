"""Files to pixels, and what one picture says: video, images, shots, BRISQUE, text area."""
