zoomable(document);
